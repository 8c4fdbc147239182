// out[m, n] = sum over k of x[m, k] * w[n, k], with N = 128 and K = 512.
// May live here: this kernel alone.
//
// One warp shares a column: lane t is thread t of the order of summation, and a warp computes a
// tile of M_SPLIT rows times 1 or 4 columns. With ROW_WARPS = 2, two warps of a CTA take different
// rows of the same columns, so that w crosses from the L2 cache once for both. None of this can
// change a bit of the result.
//   ROW_WARPS  columns per warp  tile of a CTA (rows x columns)
//       1             1            M_SPLIT     x 4   lowest latency for very few rows
//       2             4            2 * M_SPLIT x 8
// Launch: grid (ceil(m / (ROW_WARPS * M_SPLIT)), ROW_WARPS == 1 ? 32 : 16), block (128), no dynamic
// shared memory.
#pragma once

#include "gemm/thread_tile.cuh"
#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"
#include "prelude/warp.cuh"

namespace kiln {

// x: rows of 512 elements, x_row_stride elements apart, each aligned to 32 bytes. w: [128, 512],
// constant. out: [m, 128]. constants_early: false moves the reads of w behind the PDL wait.
template <int M_SPLIT, int ROW_WARPS, bool PDL>
__global__ void __launch_bounds__(128, 1)
    n128k512_gemm_bf16(const bf16* x, int64 x_row_stride, const bf16* w, bf16* out, int m,
                       bool constants_early) {
  static_assert(M_SPLIT >= 1 && M_SPLIT <= 8);
  static_assert(ROW_WARPS == 1 || ROW_WARPS == 2);
  constexpr int kN = 128;
  constexpr int kK = 512;
  constexpr int kColumnWarps = 4 / ROW_WARPS;
  constexpr int kColumns = ROW_WARPS == 1 ? 1 : 4;  // per warp
  constexpr int kOutputs = M_SPLIT * kColumns;
  constexpr int kSums = round_up_to_power_of_two(kOutputs);
  constexpr int kLanesPerSum = kWarpLanes / kSums;

  const uint32 lane = threadIdx.x % kWarpLanes;
  const uint32 warp = threadIdx.x / kWarpLanes;
  const uint32 first_column = (blockIdx.y * kColumnWarps + warp / ROW_WARPS) * kColumns;
  const uint32 first_row = (blockIdx.x * ROW_WARPS + warp % ROW_WARPS) * M_SPLIT;

  // The lane that ends up with the sum of an output stores it; the others have no target.
  const uint32 output = lane / kLanesPerSum;
  const uint32 row = first_row + output / kColumns;
  const bool stores = lane % kLanesPerSum == 0 && output < kOutputs && row < static_cast<uint32>(m);
  bf16* target =
      stores ? out + (static_cast<int64>(row) * kN + first_column + output % kColumns) : nullptr;
  pin<PDL>(target);

  float sums[kSums] = {};
  const ThreadRows rows{x + lane * kVectorElements, x_row_stride, first_row, m};
  sum_thread_tile<kWarpLanes, M_SPLIT, kColumns, PDL, Weights::kArriveDuringWait>(
      rows, w + (first_column * kK + lane * kVectorElements), constants_early, sums);
  const float sum = sum_over_lanes(sums, lane);
  if (target != nullptr)
    store(target, to_bf16(sum));
}

}  // namespace kiln
