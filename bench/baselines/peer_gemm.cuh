// The peer mapping of the two small GEMMs, rebuilt from its description: what this project's
// kernels are timed against. Same order of summation, so the same bits. n128k512: one warp per
// output column, 4 warps per block, grid (32, ceil(m / 8)). n32k5120: one CTA of 320 threads per
// output column, grid (32, ceil(m / 8)), the ten warp sums of a row added in order by one thread.
// ROWS = ceil(m / ceil(m / 8)), rows spread evenly over the y blocks. Weights are loaded before the
// PDL wait; the trigger comes right after it. May live here: baselines only; nothing the library
// compiles.
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"

namespace kiln_bench {

using kiln::bf16;
using kiln::int64;
using kiln::uint32;

// One thread's 16 elements of a row: two vectors of 8, `stride` elements apart.
struct Share {
  uint32 words[8];
};

__device__ __forceinline__ void load(const bf16* first, int stride, Share& share) {
  kiln::load_16<0>(first, share.words);
  kiln::load_16<4>(first + stride, share.words);
}

__device__ __forceinline__ float dot(const Share& x, const Share& w) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sum = __fmaf_rn(kiln::low_to_float(x.words[i]), kiln::low_to_float(w.words[i]), sum);
    sum = __fmaf_rn(kiln::high_to_float(x.words[i]), kiln::high_to_float(w.words[i]), sum);
  }
  return sum;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    value = __fadd_rn(value, __shfl_xor_sync(0xffffffffu, value, mask));
  }
  return value;
}

template <int ROWS, bool PDL>
__global__ void __launch_bounds__(128, 1)
    peer_n128k512(const bf16* x, int64 x_row_stride, const bf16* w, bf16* out, int m) {
  const int lane = threadIdx.x % 32;
  const int column = blockIdx.x * 4 + threadIdx.x / 32;
  Share w_share;
  load(w + column * 512 + lane * 8, 256, w_share);
  kiln::wait_for_prerequisites<PDL>();
  kiln::launch_dependents<PDL>();

  Share x_shares[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = min(static_cast<int>(blockIdx.y * ROWS + r), m - 1);
    load(x + row * x_row_stride + lane * 8, 256, x_shares[r]);
  }
  float sums[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    sums[r] = warp_sum(dot(x_shares[r], w_share));
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = blockIdx.y * ROWS + r;
    if (lane == 0 && row < m)
      out[row * 128 + column] = kiln::to_bf16(sums[r]);
  }
}

template <int ROWS, bool PDL>
__global__ void __launch_bounds__(320, 1)
    peer_n32k5120(const bf16* x, int64 x_row_stride, const bf16* w, bf16* out, int m) {
  __shared__ float warp_sums[ROWS][10];
  const int thread = threadIdx.x;
  const int column = blockIdx.x;
  Share w_share;
  load(w + column * 5120 + thread * 8, 2560, w_share);
  kiln::wait_for_prerequisites<PDL>();
  kiln::launch_dependents<PDL>();

  Share x_shares[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = min(static_cast<int>(blockIdx.y * ROWS + r), m - 1);
    load(x + row * x_row_stride + thread * 8, 2560, x_shares[r]);
  }
  float sums[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    sums[r] = warp_sum(dot(x_shares[r], w_share));
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (thread % 32 == 0)
      warp_sums[r][thread / 32] = sums[r];
  }
  __syncthreads();
  const int row = blockIdx.y * ROWS + thread;
  if (thread < ROWS && row < m) {
    float sum = warp_sums[thread][0];
    for (int i = 1; i < 10; ++i)
      sum = __fadd_rn(sum, warp_sums[thread][i]);
    out[row * 32 + column] = kiln::to_bf16(sum);
  }
}

// One graph node that does nothing; `where` only places it on a device.
template <bool PDL>
__global__ void __launch_bounds__(32) empty(const bf16* where) {
  kiln::wait_for_prerequisites<PDL>();
  kiln::launch_dependents<PDL>();
}

// Keeps the device busy for `nanoseconds`, so that what is queued behind it starts only once all of
// it is queued.
__global__ void __launch_bounds__(32) delay(const bf16* where, int64 nanoseconds) {
  int64 begin;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  int64 now = begin;
  while (now - begin < nanoseconds) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  }
}

}  // namespace kiln_bench
