// out[m, n] = sum over k of x[m, k] * w[n, k], with N = 32 and K = 5120.
// May live here: this kernel alone.
//
// 320 threads share a column. They compute a tile of M_SPLIT rows times COLUMN_GROUPS columns:
// every warp sums over its lanes, then one thread per output adds the ten warp sums, warp 0 first.
// A CTA has COLUMN_GROUPS such groups, which take different columns of the same rows, so that x
// crosses from the L2 cache once for both. None of this can change a bit of the result.
//   COLUMN_GROUPS  tile of a CTA (rows x columns)
//         1            M_SPLIT x 1   lowest latency for one row
//         2            M_SPLIT x 4
// Launch: grid (ceil(m / M_SPLIT), COLUMN_GROUPS == 1 ? 32 : 8), block (320 * COLUMN_GROUPS), no
// dynamic shared memory.
#pragma once

#include "gemm/thread_tile.cuh"
#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/shared.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"
#include "prelude/warp.cuh"

namespace kiln {

// x: rows of 5120 elements, x_row_stride elements apart, each aligned to 32 bytes. w: [32, 5120],
// constant. out: [m, 32]. constants_early: false moves the reads of w behind the PDL wait.
template <int M_SPLIT, int COLUMN_GROUPS, bool PDL>
__global__ void __launch_bounds__(320 * COLUMN_GROUPS, 1)
    n32k5120_gemm_bf16(const bf16* x, int64 x_row_stride, const bf16* w, bf16* out, int m,
                       bool constants_early) {
  static_assert(M_SPLIT >= 1 && M_SPLIT <= 8);
  static_assert(COLUMN_GROUPS == 1 || COLUMN_GROUPS == 2);
  constexpr int kN = 32;
  constexpr int kK = 5120;
  constexpr int kThreads = 320;
  constexpr int kWarps = kThreads / kWarpLanes;
  constexpr int kColumns = COLUMN_GROUPS;  // per group
  constexpr int kOutputs = M_SPLIT * kColumns;
  constexpr int kSums = round_up_to_power_of_two(kOutputs);
  constexpr int kLanesPerSum = kWarpLanes / kSums;
  constexpr int kPaddedWarps = 12;  // keeps each row of warp sums aligned to 16 bytes
  __shared__ alignas(16) float warp_sums[COLUMN_GROUPS][kSums][kPaddedWarps];

  launch_dependents<PDL>();
  const uint32 group = COLUMN_GROUPS == 1 ? 0 : threadIdx.x / kThreads;
  const uint32 thread = COLUMN_GROUPS == 1 ? threadIdx.x : threadIdx.x % kThreads;
  const uint32 lane = threadIdx.x % kWarpLanes;
  const uint32 first_column = (blockIdx.y * COLUMN_GROUPS + group) * kColumns;
  const uint32 first_row = blockIdx.x * M_SPLIT;

  // Thread i of a group adds up and stores output i; the others have no target.
  const uint32 row = first_row + thread / kColumns;
  const bool stores = thread < kOutputs && row < static_cast<uint32>(m);
  bf16* target =
      stores ? out + (static_cast<int64>(row) * kN + first_column + thread % kColumns) : nullptr;
  uint32 put = shared_address(&warp_sums[group][lane / kLanesPerSum][thread / kWarpLanes]);
  uint32 get = shared_address(&warp_sums[group][stores ? thread : 0][0]);
  pin<PDL>(target);
  pin<PDL>(put);
  pin<PDL>(get);

  float sums[kSums] = {};
  const ThreadRows rows{x + thread * kVectorElements, x_row_stride, first_row, m};
  sum_thread_tile<kThreads, M_SPLIT, kColumns, PDL, Weights::kArriveBeforeWait>(
      rows, w + (first_column * kK + thread * kVectorElements), constants_early, sums);
  const float warp_sum = sum_over_lanes(sums, lane);
  if (lane % kLanesPerSum == 0)
    store_shared(put, warp_sum);
  __syncthreads();

  if (target != nullptr) {
    float parts[kWarps];
    load_shared_4<0>(get, parts);
    load_shared_4<4>(get, parts);
    load_shared_2<8>(get, parts);
    float sum = parts[0];
#pragma unroll
    for (int i = 1; i < kWarps; ++i)
      sum = __fadd_rn(sum, parts[i]);
    store(target, to_bf16(sum));
  }
}

}  // namespace kiln
