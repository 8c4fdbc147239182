// A row's positions that lie in its selected blocks, as one byte each.
// May live here: this kernel alone.
//
// Each CTA of a row looks at all of its selected blocks for those in its own tile, so that every
// byte is written once and nothing is cleared before. Launch: block (kMaskThreads), grid (rows,
// CTAs of a row).
#pragma once

#include "attention/candidate_mask.cuh"
#include "attention/logit_group.cuh"
#include "prelude/division.cuh"
#include "prelude/float_order.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"

namespace kiln {

// Marks those of k selected blocks that are among `count` blocks from `first` on. W neighbours, all
// on 16-byte boundaries if they are 4, are loaded at once, and COUNT times as many are under way.
template <uint32 W, uint32 COUNT>
__device__ __forceinline__ void mark_selected(const int* indices, const float* values, uint32 k,
                                              uint32 first, uint32 count, MaskFlags& flags) {
  constexpr uint32 kStep = kMaskThreads * W;
  for (uint32 begin = threadIdx.x * W; begin < k; begin += COUNT * kStep) {
    LogitGroup<W> blocks[COUNT];
    LogitGroup<W> scores[COUNT] = {};
#pragma unroll
    for (uint32 j = 0; j < COUNT; ++j) {
#pragma unroll
      for (uint32 i = 0; i < W; ++i)
        blocks[j].bits[i] = 0xffffffffu;
      if (begin + j * kStep < k) {
        blocks[j].load(reinterpret_cast<const float*>(indices + begin + j * kStep));
        scores[j].load(values + begin + j * kStep);
      }
    }
#pragma unroll
    for (uint32 j = 0; j < COUNT; ++j) {
#pragma unroll
      for (uint32 i = 0; i < W; ++i) {
        const uint32 at = blocks[j].bits[i] - first;
        // No NaN is above -inf.
        if (at < count && __uint_as_float(scores[j].bits[i]) > __uint_as_float(kNegativeInfinity))
          flags[at] = 1;
      }
    }
  }
}

// indices, values: [rows, k]; an index outside the row's blocks marks nothing. keep: [rows, width].
template <bool PDL>
__global__ void __launch_bounds__(kMaskThreads, 2)
    publish_candidate_mask(const int* indices, const float* values, uint8* keep, int block_size,
                           uint32 k, int width) {
  __shared__ MaskFlags flags;
  launch_dependents<PDL>();
  const int64 row = blockIdx.x;
  uint32 elements = static_cast<uint32>(width);
  Divisor block(static_cast<uint32>(block_size));
  uint32 blocks = block.divide_up(elements);
  uint32 tile_blocks = mask_tile_blocks(block);
  uint32 step = gridDim.y * tile_blocks;
  const int* row_indices = indices + row * k;
  const float* row_values = values + row * k;
  uint8* row_keep = keep + row * elements;
  clear_flags(flags, tile_blocks);
  __syncthreads();
  pin<PDL>(row_indices);
  pin<PDL>(row_values);
  pin<PDL>(row_keep);
  pin<PDL>(block.value);
  pin<PDL>(block.reciprocal);
  pin<PDL>(elements);
  pin<PDL>(blocks);
  pin<PDL>(tile_blocks);
  pin<PDL>(step);
  pin<PDL>(k);
  const bool vectors = on_16_bytes(row_indices) && on_16_bytes(row_values) && k % 4 == 0;
  wait_for_prerequisites<PDL>();
  for (uint32 first = blockIdx.y * tile_blocks; first < blocks; first += step) {
    const uint32 here = min(tile_blocks, blocks - first);
    if (vectors) {
      mark_selected<4, 1>(row_indices, row_values, k, first, here, flags);
    } else {
      mark_selected<1, 4>(row_indices, row_values, k, first, here, flags);
    }
    __syncthreads();
    const uint32 begin = first * block.value;
    store_flags(row_keep + begin, min(here * block.value, elements - begin), block, flags);
    if (first + step >= blocks)
      break;
    __syncthreads();
    clear_flags(flags, here);
    __syncthreads();
  }
}

}  // namespace kiln
