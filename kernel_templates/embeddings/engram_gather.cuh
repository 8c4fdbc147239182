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

// Columns that share a scale, and their logarithm, or -1 where they are no power of two.
struct ScaleGroups {
  uint32 columns;
  int shift;

  __device__ __forceinline__ uint32 of(uint32 column) const {
    return shift >= 0 ? column >> shift : column / columns;
  }
};

// values times 2^(exponent - 127)
__device__ __forceinline__ void scale_by(uint32 exponent, float (&values)[8]) {
  const float factor = e8m0_to_float(exponent);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    values[i] = __fmul_rn(values[i], factor);
}

// Each by the scale of its own column, from `column` on.
__device__ __forceinline__ void scale_each(const uint8* row_scales, const ScaleGroups& groups,
                                           uint32 column, float (&values)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i)
    values[i] = __fmul_rn(values[i], e8m0_to_float(load_byte(row_scales + groups.of(column + i))));
}

// weight: [rows, dim], rows on 16-byte boundaries. scale: [rows, groups], each for `columns`
// columns; with WHOLE, those are a multiple of 8. Both begin at the table's row row_lo and may lie
// in host memory. ids: [n], of int64 (wide_ids) or int32. out: [n, dim]; zeros where an id is not
// in [row_lo, row_lo + rows), of which nothing is read. dim: a multiple of 16.
template <int VECTORS, bool WHOLE, bool PDL>
__global__ void __launch_bounds__(256, kGatherCtas)
    engram_gather(const uint8* weight, const uint8* scale, const void* ids, bf16* out, int64 row_lo,
                  int64 rows, int n, int dim, int groups, int columns, int shift, int wide_ids) {
  launch_dependents<PDL>();
  // What the parameters decide is ready when the wait returns: read or divided after it, it would
  // lie on the way from an id to its row.
  const ScaleGroups shared{static_cast<uint32>(columns), shift};
  uint32 width = static_cast<uint32>(dim);
  uint32 scales = static_cast<uint32>(groups);
  const uint32 row = blockIdx.x * blockDim.y + threadIdx.y;
  const uint32 first = (threadIdx.x + blockIdx.y * VECTORS * blockDim.x) * 8;
  const uint32 apart = blockDim.x * 8;
  const uint8* id_at = static_cast<const uint8*>(ids) + (int64{row} << (wide_ids != 0 ? 3 : 2));
  const uint8* weights = weight + first;
  bf16* to = out + (int64{row} * width + first);
  const uint8* scale_at[VECTORS];
#pragma unroll
  for (int j = 0; j < VECTORS; ++j) {
    scale_at[j] = WHOLE ? scale + shared.of(first + j * apart) : scale;
    pin<PDL>(scale_at[j]);
  }
  pin<PDL>(width);
  pin<PDL>(scales);
  pin<PDL>(id_at);
  pin<PDL>(weights);
  pin<PDL>(to);
  const bool exists = row < static_cast<uint32>(n);
  // Ids are often worked out long before, for all layers at once.
  if (PDL && threadIdx.x == 0 && exists)
    prefetch_to_l2(id_at);
  wait_for_prerequisites<PDL>();
  if (!exists)
    return;

  const int64 id = load_index(id_at, 0, wide_ids != 0);
  const bool owned = id >= row_lo && id - row_lo < rows;
  const int64 from = owned ? id - row_lo : 0;
  uint32 words[VECTORS][2] = {};
  uint32 exponents[VECTORS] = {};
#pragma unroll
  for (int j = 0; j < VECTORS; ++j) {
    if (owned && first + j * apart < width) {
      load_8(weights + (from * width + j * apart), words[j]);
      if constexpr (WHOLE)
        exponents[j] = load_byte(scale_at[j] + from * scales);
    }
  }
#pragma unroll
  for (int j = 0; j < VECTORS; ++j) {
    const uint32 column = first + j * apart;
    if (column >= width)
      continue;
    float values[8];
    e4m3_to_float(words[j], values);  // Zeros where the id is not owned, and stay so.
    if constexpr (WHOLE) {
      scale_by(exponents[j], values);
    } else if (owned) {
      scale_each(scale + from * scales, shared, column, values);
    }
    Vector8<bf16> result;
    from_float(values, result);
    store_16_once(to + j * apart, result.words);
  }
}

}  // namespace kiln
