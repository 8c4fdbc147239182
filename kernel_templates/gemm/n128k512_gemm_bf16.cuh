// out[m, n] = sum over k of x[m, k] * w[n, k], with N = 128 and K = 512.
// May live here: this kernel alone.
//
// Each warp holds N_SPLIT columns of w and computes them for M_SPLIT rows; lane t of the warp is
// thread t of the 32 that share a column in the order of summation. Neither trait can change a bit
// of the result. Launch: block (128), grid (ceil(m / M_SPLIT), 32 / N_SPLIT), no dynamic shared
// memory.
#pragma once

#include "gemm/fragment.cuh"
#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/warp.cuh"

namespace kiln {

// x: rows of 512 elements, x_row_stride elements apart, each aligned to 32 bytes. w: [128, 512],
// constant. out: [m, 128]. constants_early: false moves the reads of w behind the PDL wait.
template <int M_SPLIT, int N_SPLIT, bool PDL>
__global__ void __launch_bounds__(128, 1)
    n128k512_gemm_bf16(const bf16* x, int64 x_row_stride, const bf16* w, bf16* out, int m,
                       bool constants_early) {
  constexpr int kN = 128;
  constexpr int kK = 512;
  constexpr int kWarps = 4;
  constexpr int kOutputs = round_up_to_power_of_two(M_SPLIT * N_SPLIT);
  constexpr int kLanesPerOutput = kWarpLanes / kOutputs;

  launch_dependents<PDL>();
  const int lane = threadIdx.x % kWarpLanes;
  const int warp = threadIdx.x / kWarpLanes;
  const int first_column = (blockIdx.y * kWarps + warp) * N_SPLIT;
  const int64 first_row = static_cast<int64>(blockIdx.x) * M_SPLIT;

  Fragment w_columns[N_SPLIT];
  const auto load_w = [&] {
#pragma unroll
    for (int c = 0; c < N_SPLIT; ++c) {
      load_constant_fragment<kWarpLanes>(w + (first_column + c) * kK, lane, w_columns[c]);
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
    load_fragment<kWarpLanes>(x + row * x_row_stride, lane, x_rows[r]);
  }
  if (PDL && !constants_early)
    load_w();

  float sums[kOutputs] = {};
#pragma unroll
  for (int r = 0; r < M_SPLIT; ++r)
    dot_columns(x_rows[r], w_columns, sums + r * N_SPLIT);
  const float sum = sum_over_lanes(sums, lane);

  const int output = lane / kLanesPerOutput;
  const int64 row = first_row + output / N_SPLIT;
  if (lane % kLanesPerOutput == 0 && output < M_SPLIT * N_SPLIT && row < m) {
    out[row * kN + first_column + output % N_SPLIT] = to_bf16(sum);
  }
}

}  // namespace kiln
