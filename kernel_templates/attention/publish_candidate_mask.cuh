// A row's positions that lie in its selected blocks, as one byte each.
// May live here: this kernel alone.
//
// Each CTA of a row looks at all of its selected blocks for those in its own tile, so that every
// byte is written once and nothing is cleared before. Launch: block (kMaskThreads), grid (rows,
// CTAs of a row).
#pragma once

#include "attention/candidate_mask.cuh"
#include "prelude/division.cuh"
#include "prelude/global.cuh"
#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"

namespace kiln {

// Marks those of k selected blocks that are among `count` blocks from `first` on.
__device__ __forceinline__ void mark_selected(const int* indices, const float* values, uint32 k,
                                              uint32 first, uint32 count, MaskFlags& flags) {
  constexpr uint32 kBatch = 8;
  for (uint32 begin = threadIdx.x; begin < k; begin += kBatch * kMaskThreads) {
    uint32 blocks[kBatch];
    float scores[kBatch];
#pragma unroll
    for (uint32 j = 0; j < kBatch; ++j) {
      const uint32 i = begin + j * kMaskThreads;
      blocks[j] = 0xffffffffu;
      scores[j] = 0;
      if (i < k) {
        blocks[j] = static_cast<uint32>(load_int(indices + i));
        scores[j] = load_element(values + i);
      }
    }
#pragma unroll
    for (uint32 j = 0; j < kBatch; ++j) {
      // No NaN is above -inf.
      if (blocks[j] - first < count && scores[j] > __uint_as_float(0xff800000u))
        flags[blocks[j] - first] = 1;
    }
  }
}

// indices, values: [rows, k]; an index outside the row's blocks marks nothing. keep: [rows, width].
template <bool PDL>
__global__ void __launch_bounds__(kMaskThreads)
    publish_candidate_mask(const int* indices, const float* values, uint8* keep, int block_size,
                           int k, int width) {
  __shared__ MaskFlags flags;
  launch_dependents<PDL>();
  const int64 row = blockIdx.x;
  const uint32 elements = static_cast<uint32>(width);
  const uint32 selected = static_cast<uint32>(k);
  const Divisor block(static_cast<uint32>(block_size));
  const uint32 blocks = block.divide_up(elements);
  const uint32 tile_blocks = mask_tile_blocks(block);
  const int* const row_indices = indices + row * selected;
  const float* const row_values = values + row * selected;
  uint8* const row_keep = keep + row * elements;
  wait_for_prerequisites<PDL>();
  for (uint32 first = blockIdx.y * tile_blocks; first < blocks; first += gridDim.y * tile_blocks) {
    const uint32 here = min(tile_blocks, blocks - first);
    clear_flags(flags, here);
    __syncthreads();
    mark_selected(row_indices, row_values, selected, first, here, flags);
    __syncthreads();
    const uint32 begin = first * block.value;
    store_flags(row_keep + begin, min(here * block.value, elements - begin), block, flags);
    __syncthreads();
  }
}

}  // namespace kiln
