// out[m, n] = sum over k of x[m, k] * w[n, k], with N = 32 and K = 5120.
// May live here: this kernel alone.
//
// Each CTA computes N_SPLIT columns for M_SPLIT rows; its 320 threads are the threads that share a
// column in the order of summation. Every warp sums over its lanes, then one thread per output adds
// the ten warp sums, warp 0 first. Neither trait can change a bit of the result. Launch: block
// (320), grid (ceil(m / M_SPLIT), 32 / N_SPLIT), no dynamic shared memory.
#pragma once

#include "gemm/fragment.cuh"
#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/warp.cuh"

namespace kiln {

// x: rows of 5120 elements, x_row_stride elements apart, each aligned to 32 bytes. w: [32, 5120],
// constant. out: [m, 32]. constants_early: false moves the reads of w behind the PDL wait.
template <int M_SPLIT, int N_SPLIT, bool PDL>
__global__ void __launch_bounds__(320, 1)
    n32k5120_gemm_bf16(const bf16* x, int64 x_row_stride, const bf16* w, bf16* out, int m,
                       bool constants_early) {
  constexpr int kN = 32;
  constexpr int kK = 5120;
  constexpr int kThreads = 320;
  constexpr int kWarps = kThreads / kWarpLanes;
  constexpr int kOutputs = round_up_to_power_of_two(M_SPLIT * N_SPLIT);
  constexpr int kLanesPerOutput = kWarpLanes / kOutputs;
  __shared__ float warp_sums[kOutputs][kWarps];

  launch_dependents<PDL>();
  const int thread = threadIdx.x;
  const int lane = thread % kWarpLanes;
  const int warp = thread / kWarpLanes;
  const int first_column = blockIdx.y * N_SPLIT;
  const int64 first_row = static_cast<int64>(blockIdx.x) * M_SPLIT;

  Fragment w_columns[N_SPLIT];
  const auto load_w = [&] {
#pragma unroll
    for (int c = 0; c < N_SPLIT; ++c) {
      load_constant_fragment<kThreads>(w + (first_column + c) * kK, thread, w_columns[c]);
    }
  };
  if (!PDL || constants_early)
    load_w();
  wait_for_prerequisites<PDL>();

  // Rows past the end repeat the last one, so that loads need no predicate; their sums are not
  // stored.
  Fragment x_rows[M_SPLIT];
#pragma unroll
  for (int r = 0; r < M_SPLIT; ++r) {
    const int64 row = first_row + r < m ? first_row + r : m - 1;
    load_fragment<kThreads>(x + row * x_row_stride, thread, x_rows[r]);
  }
  if (PDL && !constants_early)
    load_w();

  float sums[kOutputs] = {};
#pragma unroll
  for (int r = 0; r < M_SPLIT; ++r)
    dot_columns(x_rows[r], w_columns, sums + r * N_SPLIT);
  const float warp_sum = sum_over_lanes(sums, lane);
  if (lane % kLanesPerOutput == 0)
    warp_sums[lane / kLanesPerOutput][warp] = warp_sum;
  __syncthreads();

  const int64 row = first_row + thread / N_SPLIT;
  if (thread < M_SPLIT * N_SPLIT && row < m) {
    float sum = warp_sums[thread][0];
#pragma unroll
    for (int i = 1; i < kWarps; ++i)
      sum = __fadd_rn(sum, warp_sums[thread][i]);
    out[row * kN + first_column + thread % N_SPLIT] = to_bf16(sum);
  }
}

}  // namespace kiln
