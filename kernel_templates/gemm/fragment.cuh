// One thread's share of one row of K: 16 elements, in the order of summation that both small GEMMs
// keep. May live here: loading a share, and its dot product. Not how shares are spread over
// threads' tiles, nor the sum across them.
//
// THREADS threads share a row of 16 * THREADS elements. In vectors of V elements (kVectorElements),
// thread t takes vectors t, THREADS + t, ..., and sums the products one after the other in that
// order.
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"

namespace kiln {

constexpr int kFragmentElements = 16;
constexpr int kFragmentWords = kFragmentElements / 2;

struct Fragment {
  uint32 words[kFragmentWords];
};

// `row` points to the row's first element, aligned to 32 bytes.
template <int THREADS>
__device__ __forceinline__ void load_fragment(const bf16* row, int thread, Fragment& fragment) {
  const bf16* first = row + thread * kVectorElements;
  if constexpr (kVectorElements == kFragmentElements) {
    load_32(first, fragment.words);
  } else {
    load_16(first, fragment.words, 0);
    load_16(first + THREADS * kVectorElements, fragment.words, 4);
  }
}

template <int THREADS>
__device__ __forceinline__ void load_constant_fragment(const bf16* row, int thread,
                                                       Fragment& fragment) {
  const bf16* first = row + thread * kVectorElements;
  if constexpr (kVectorElements == kFragmentElements) {
    load_constant_32(first, fragment.words);
  } else {
    load_constant_16(first, fragment.words, 0);
    load_constant_16(first + THREADS * kVectorElements, fragment.words, 4);
  }
}

// sums[c] = the dot product of x and w[c], one fma per product in element order, from 0.
template <int COLUMNS>
__device__ __forceinline__ void dot_columns(const Fragment& x, const Fragment (&w)[COLUMNS],
                                            float* sums) {
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c)
    sums[c] = 0.0f;
#pragma unroll
  for (int i = 0; i < kFragmentWords; ++i) {
    const float x_low = low_to_float(x.words[i]);
    const float x_high = high_to_float(x.words[i]);
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      sums[c] = __fmaf_rn(x_low, low_to_float(w[c].words[i]), sums[c]);
      sums[c] = __fmaf_rn(x_high, high_to_float(w[c].words[i]), sums[c]);
    }
  }
}

}  // namespace kiln
