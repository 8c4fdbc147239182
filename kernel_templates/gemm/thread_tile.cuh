// What one thread of the small GEMMs does up to the sum across threads: its partial sums for a tile
// of rows of x times columns of w.
// May live here: the order of summation inside a thread, and the order of loads around the PDL
// wait. Not how tiles are spread over warps and CTAs.
//
// Order of summation: THREADS threads share a column of 16 * THREADS elements. In vectors of V
// elements (kVectorElements), thread t takes vectors t, THREADS + t, ...: 16 elements in all. It
// starts from 0 and adds their products one fma after the other, in that order.
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"

namespace kiln {

enum : int { kThreadElements = 16 };

// One thread's 16 elements of a row or column, as loaded.
struct ThreadVector {
  uint32 words[kThreadElements / 2];
};

// `first` points to the thread's own first element, aligned to 32 bytes from sm_100 on, else to 16.
template <int THREADS>
__device__ __forceinline__ void load(const bf16* first, ThreadVector& vector) {
  if constexpr (int{kVectorElements} == int{kThreadElements}) {
    load_32(first, vector.words);
  } else {
    load_16<0>(first, vector.words);
    load_16<4>(first + THREADS * kVectorElements, vector.words);
  }
}

__device__ __forceinline__ void to_float(const ThreadVector& vector,
                                         float (&values)[kThreadElements]) {
#pragma unroll
  for (int i = 0; i < kThreadElements / 2; ++i) {
    values[2 * i] = low_to_float(vector.words[i]);
    values[2 * i + 1] = high_to_float(vector.words[i]);
  }
}

// How a tile's weights stand to the PDL wait. The faster of the two differs by kernel; measured by
// bench/device_time.
enum class Weights {
  // A warp has its weights, converted, when it goes to wait: their loads do not meet those of x.
  kArriveBeforeWait,
  // A warp waits with its weights under way and converts them while x is under way: less code, and
  // in one straight line. Lets the dependents go right after the wait.
  kArriveDuringWait,
};

// A row of x as a thread reads it; x_row_stride is in elements.
struct ThreadRows {
  const bf16* x;  // the thread's own first element of row 0
  int64 x_row_stride;
  uint32 first_row;
  int m;

  // Rows past the end repeat the last one, so that loads need no predicate.
  __device__ __forceinline__ const bf16* row(int r) const {
    return x + min(first_row + r, static_cast<uint32>(m) - 1) * x_row_stride;
  }
};

// sums[r * COLUMNS + c] = this thread's part of row first_row + r times column c. `w` points to the
// thread's own first element of column 0. constants_early false reads w behind the wait.
template <int THREADS, int ROWS, int COLUMNS, bool PDL, Weights WEIGHTS>
__device__ __forceinline__ void sum_thread_tile(const ThreadRows& rows, const bf16* w,
                                                bool constants_early, float* sums) {
  // Rows loaded at once: enough to hide the latency, few enough to stay in registers.
  constexpr int kBatch = ROWS < 4 ? ROWS : 4;
  constexpr int kColumnStride = THREADS * kThreadElements;

  const bf16* x_first[kBatch];
#pragma unroll
  for (int r = 0; r < kBatch; ++r) {
    x_first[r] = rows.row(r);
    pin<PDL>(x_first[r]);
  }

  ThreadVector w_vectors[COLUMNS];
  float w_values[COLUMNS][kThreadElements];
  const auto load_w = [&] {
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
      load<THREADS>(w + c * kColumnStride, w_vectors[c]);
  };
  const auto convert_w = [&] {
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
      to_float(w_vectors[c], w_values[c]);
  };
  if constexpr (WEIGHTS == Weights::kArriveBeforeWait) {
    if (!PDL || constants_early) {
      load_w();
      convert_w();
    }
    wait_for_prerequisites<PDL>();
  } else {
    // With constants_early false the first wait does the work, and the second returns at once.
    if (PDL && !constants_early)
      wait_for_prerequisites<PDL>();
    load_w();
    wait_for_prerequisites<PDL>();
    launch_dependents<PDL>();
  }

#pragma unroll
  for (int begin = 0; begin < ROWS; begin += kBatch) {
    ThreadVector vectors[kBatch];
#pragma unroll
    for (int r = 0; r < kBatch && begin + r < ROWS; ++r) {
      load<THREADS>(begin == 0 ? x_first[r] : rows.row(begin + r), vectors[r]);
    }
    if constexpr (WEIGHTS == Weights::kArriveBeforeWait) {
      if (PDL && begin == 0 && !constants_early) {
        load_w();
        convert_w();
      }
    } else {
      if (begin == 0)
        convert_w();
    }
#pragma unroll
    for (int r = 0; r < kBatch && begin + r < ROWS; ++r) {
      float x_values[kThreadElements];
      to_float(vectors[r], x_values);
      float* row_sums = sums + (begin + r) * COLUMNS;
#pragma unroll
      for (int i = 0; i < kThreadElements; ++i) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
          row_sums[c] = __fmaf_rn(x_values[i], w_values[c][i], i == 0 ? 0.0f : row_sums[c]);
        }
      }
    }
  }
}

}  // namespace kiln
