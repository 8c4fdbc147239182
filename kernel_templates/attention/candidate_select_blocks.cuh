// The k greatest scores of each row, and where they are.
// May live here: this kernel alone.
//
// Launch: see candidate_select.cuh.
#pragma once

#include "attention/candidate_scores.cuh"
#include "prelude/pdl.cuh"

namespace kiln {

// Where the selected scores of one row go.
struct BlockSink {
  int* indices;
  float* values;

  __device__ __forceinline__ void take_threshold(const Threshold&) const {}
  __device__ __forceinline__ void take(const float* scores, uint32 place, uint32 index,
                                       uint32 key) const {
    uint32 bits = value_of(key);
    if (key == 0x80000000u || key == kNanKey)  // Of zeros and NaN, the key does not say which.
      bits = __float_as_uint(load_element(scores + index));
    store_4(indices + place, index);
    store_4(values + place, bits);
  }
  __device__ __forceinline__ void take_last(uint32) const {}
};

// scores: [rows, blocks]. indices, values: [rows, k], 1 <= k <= blocks.
template <bool PDL>
__global__ void __launch_bounds__(kSelectThreads, 1)
    candidate_select_blocks(const float* scores, int* indices, float* values, int blocks,
                            uint32 k) {
  __shared__ SelectShared shared;
  launch_dependents<PDL>();
  const int64 row = blockIdx.x / cluster_ctas();
  RowScores from(scores + row * blocks, static_cast<uint32>(blocks));
  BlockSink sink{indices + row * k, values + row * k};
  prepare_select(shared, from.rank, from.ctas);
  from.pin_all<PDL>();
  pin<PDL>(sink.indices);
  pin<PDL>(sink.values);
  pin<PDL>(k);
  wait_for_prerequisites<PDL>();
  select_row(from, k, shared, sink);
}

}  // namespace kiln
