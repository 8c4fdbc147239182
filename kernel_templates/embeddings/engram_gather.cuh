// Rows of a table of e4m3 with e8m0 scales, by their numbers, as bf16.
// May live here: this kernel alone.
//
// A thread takes VECTORS vectors of 8 elements of one row, blockDim.x vectors apart: 8 bytes each
// of the table, 16 of the output, and each access of a warp is of consecutive addresses. Launch:
// block (threads of a row, rows), grid (ceil(n / rows), ceil(dim / 8 / threads / VECTORS)).
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/e4m3.cuh"
#include "prelude/global.cuh"
#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector8.cuh"

namespace kiln {

// That fill a multiprocessor: of 2048 threads, and of 1536 from sm_110 on.
#if __CUDA_ARCH__ >= 1100
enum : int { kGatherCtas = 6 };
#else
enum : int { kGatherCtas = 8 };
#endif

// weight: [rows, dim], rows on 16-byte boundaries. scale: [rows, groups], each for dim / groups
// columns; with WHOLE, those are a multiple of 8. Both begin at the table's row row_lo and may lie
// in host memory. ids: [n], of int64 (wide_ids) or int32. out: [n, dim]; zeros where an id is not
// in [row_lo, row_lo + rows), of which nothing is read. dim: a multiple of 16.
template <int VECTORS, bool WHOLE, bool PDL>
__global__ void __launch_bounds__(256, kGatherCtas)
    engram_gather(const uint8* weight, const uint8* scale, const void* ids, bf16* out, int64 row_lo,
                  int64 rows, int n, int dim, int groups, int wide_ids) {
  launch_dependents<PDL>();
  const uint32 width = static_cast<uint32>(dim);
  const uint32 columns = width / static_cast<uint32>(groups);  // That share a scale.
  const uint32 row = blockIdx.x * blockDim.y + threadIdx.y;
  uint32 column[VECTORS];
  uint32 group[VECTORS];
#pragma unroll
  for (int j = 0; j < VECTORS; ++j) {
    column[j] = (threadIdx.x + (blockIdx.y * VECTORS + j) * blockDim.x) * 8;
    group[j] = column[j] / columns;
    pin<PDL>(group[j]);
  }
  // Ids are often worked out long before, for all layers at once.
  if (PDL && threadIdx.x == 0 && row < static_cast<uint32>(n))
    prefetch_to_l2(static_cast<const uint8*>(ids) +
                   static_cast<int64>(row) * (wide_ids != 0 ? 8 : 4));
  wait_for_prerequisites<PDL>();
  if (row >= static_cast<uint32>(n))
    return;

  const int64 id = load_index(ids, row, wide_ids != 0);
  const bool owned = id >= row_lo && id - row_lo < rows;
  const int64 from = owned ? id - row_lo : 0;
  uint32 words[VECTORS][2] = {};
  uint32 exponents[VECTORS] = {};
#pragma unroll
  for (int j = 0; j < VECTORS; ++j) {
    if (owned && column[j] < width) {
      load_8(weight + (from * width + column[j]), words[j]);
      if constexpr (WHOLE)
        exponents[j] = load_byte(scale + (from * groups + group[j]));
    }
  }
#pragma unroll
  for (int j = 0; j < VECTORS; ++j) {
    if (column[j] >= width)
      continue;
    float values[8];
    e4m3_to_float(words[j], values);  // Zeros where the id is not owned, and stay so.
    if constexpr (WHOLE) {
      const float factor = e8m0_to_float(exponents[j]);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        values[i] = __fmul_rn(values[i], factor);
    } else if (owned) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const uint8* const at = scale + (from * groups + (column[j] + i) / columns);
        values[i] = __fmul_rn(values[i], e8m0_to_float(load_byte(at)));
      }
    }
    Vector8<bf16> result;
    from_float(values, result);
    store_16_once(out + (static_cast<int64>(row) * width + column[j]), result.words);
  }
}

}  // namespace kiln
