// The k greatest scores of each row, and where they are.
// May live here: this kernel alone.
//
// Launch: see candidate_select.cuh; at most 8 CTAs of a row.
#pragma once

#include "attention/candidate_select.cuh"
#include "prelude/pdl.cuh"

namespace kiln {

// Where the selected scores of one row go: the kernel's own parameters, which need no registers.
struct BlockSink {
  const float* scores;
  int* indices;
  float* values;
  int blocks;
  int k;
  uint32 row;

  __device__ __forceinline__ void take(uint32 place, uint32 index, uint32 key) const {
    const int64 to = static_cast<int64>(row) * k + place;
    uint32 bits = value_of(key);
    if (key == 0x80000000u || key == kNanKey)  // Of zeros and NaN, the key does not say which.
      bits = __float_as_uint(load_element(scores + (static_cast<int64>(row) * blocks + index)));
    store_4(indices + to, index);
    store_4(values + to, bits);
  }
  __device__ __forceinline__ void take_last(uint32, uint32) const {}
};

// scores: [rows, blocks]. indices, values: [rows, k], 1 <= k <= blocks.
template <bool PDL>
__global__ void __launch_bounds__(kSelectThreads, 1)
    candidate_select_blocks(const float* scores, int* indices, float* values, int blocks, int k) {
  __shared__ SelectShared shared;
  launch_dependents<PDL>();
  const uint32 row = blockIdx.x / cluster_ctas();
  const float* const from = scores + static_cast<int64>(row) * blocks;
  const BlockSink sink{scores, indices, values, blocks, k, row};
  clear_bins(shared);
  wait_for_prerequisites<PDL>();
  select_row(from, static_cast<uint32>(blocks), static_cast<uint32>(k), shared, sink);
}

}  // namespace kiln
