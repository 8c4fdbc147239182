// y[g, r] = sum over d of x[g, d] * w[g, r, d], for one token.
// May live here: this kernel alone.
//
// A CTA is one warp, so that its place is free for the next as soon as it is done. It computes one
// output, and has 4096 of its weights under way before it waits for x. Order of summation: lane t
// starts from 0 and adds the products of elements [(32 * i + t) * 8, + 8), i = 0, 1, ..., one fma
// after the other; the lanes are added in pairs whose numbers differ in one bit: 16, 8, 4, 2, 1.
// Launch: block (32), grid (g * r), dynamic shared memory for Weights.
#pragma once

#include "prelude/async_copy.cuh"
#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/shared.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"
#include "prelude/vector8.cuh"
#include "prelude/warp.cuh"

namespace kiln {

// Vectors of 8 elements, of which each lane of a warp has one in 32.
struct WoAGemv {
  enum : uint32 {
    kVectors = 16,           // of w that a lane has under way
    kBatch = 4,              // of x
    kStep = kWarpLanes * 8,  // elements from one vector of a lane to its next
    kWhole = kVectors * kStep,
  };
  // CTAs of a multiprocessor. From sm_100 on the compiler wants more registers than 24 would leave.
#if __CUDA_ARCH__ >= 1000
  enum : uint32 { kResident = 16 };
#else
  enum : uint32 { kResident = 24 };
#endif
  // The weights under way. A lane reads what it copied itself, and nothing else, so that lanes need
  // not wait for each other.
  using Weights = uint4[kVectors][kWarpLanes];

  // WHOLE: kWhole elements or more are left. Otherwise all that there are; predicates would cost
  // time in the usual case.
  template <bool WHOLE>
  static __device__ __forceinline__ void copy(const bf16* w, uint32 left, Weights& weights,
                                              uint32 lane) {
    const uint32 to = shared_address(&weights[0][lane]);
#pragma unroll
    for (uint32 i = 0; i < kVectors; ++i) {
      if (WHOLE || i * kStep < left)
        copy_16_async(to + i * (kWarpLanes * 16), w + i * kStep);
    }
    end_copy_group();
  }

  template <bool WHOLE>
  static __device__ __forceinline__ void load_batch(const bf16* x, uint32 left, uint32 first,
                                                    Vector8<bf16> (&batch)[kBatch]) {
#pragma unroll
    for (uint32 i = 0; i < kBatch; ++i) {
      if (WHOLE || (first + i) * kStep < left)
        load(x + (first + i) * kStep, batch[i]);
    }
  }

  template <bool WHOLE>
  static __device__ __forceinline__ float add(const bf16* x, uint32 left, const Weights& weights,
                                              uint32 lane, float sum) {
    Vector8<bf16> batches[2][kBatch];
    load_batch<WHOLE>(x, left, 0, batches[0]);
    wait_for_copy_groups<0>();
#pragma unroll
    for (uint32 first = 0; first < kVectors; first += kBatch) {
      const Vector8<bf16>(&batch)[kBatch] = batches[first / kBatch % 2];
      if (first + kBatch < kVectors)
        load_batch<WHOLE>(x, left, first + kBatch, batches[(first / kBatch + 1) % 2]);
#pragma unroll
      for (uint32 i = 0; i < kBatch; ++i) {
        if (WHOLE || (first + i) * kStep < left) {
          const uint4 vector = weights[first + i][lane];
          float x_values[8];
          float w_values[8];
          to_float(batch[i], x_values);
          to_float(Vector8<bf16>{{vector.x, vector.y, vector.z, vector.w}}, w_values);
#pragma unroll
          for (int e = 0; e < 8; ++e)
            sum = __fmaf_rn(x_values[e], w_values[e], sum);
        }
      }
    }
    return sum;
  }
};

// x: [g, d]. w: [g, r, d], constant. y: [g, r]. All contiguous, x and w on 16-byte boundaries; d is
// a multiple of 256. constants_early: false moves the reads of w behind the PDL wait.
template <bool PDL>
__global__ void __launch_bounds__(kWarpLanes, WoAGemv::kResident)
    wo_a_bf16_gemv(const bf16* x, const bf16* w, bf16* y, int r, int d, bool constants_early) {
  extern __shared__ uint4 wo_a_storage[];
  launch_dependents<PDL>();
  const uint32 lane = threadIdx.x;
  const uint32 output = blockIdx.x;
  WoAGemv::Weights& weights = *reinterpret_cast<WoAGemv::Weights*>(wo_a_storage);
  const bf16* w_lane = w + (static_cast<int64>(output) * d + lane * 8);
  const bf16* x_lane = x + (static_cast<int64>(output / static_cast<uint32>(r)) * d + lane * 8);
  bf16* target = y + output;
  uint32 left = static_cast<uint32>(d);
  const bool early = !PDL || constants_early;

  float sum = 0.0f;
#pragma unroll 1
  do {
    const bool whole = left >= WoAGemv::kWhole;
    if (!early)
      wait_for_prerequisites<PDL>();
    if (whole) {
      WoAGemv::copy<true>(w_lane, left, weights, lane);
    } else {
      WoAGemv::copy<false>(w_lane, left, weights, lane);
    }
    // What the wait would delay; the weights are waited for longest, so they go first.
    pin<PDL>(x_lane);
    pin<PDL>(target);
    pin<PDL>(left);
    wait_for_prerequisites<PDL>();
    sum = whole ? WoAGemv::add<true>(x_lane, left, weights, lane, sum)
                : WoAGemv::add<false>(x_lane, left, weights, lane, sum);
    w_lane += WoAGemv::kWhole;
    x_lane += WoAGemv::kWhole;
    left -= min(left, uint32{WoAGemv::kWhole});
  } while (left > 0);
  const float sums[1] = {sum};
  const float total = sum_over_lanes(sums, lane);
  if (lane == 0)
    store(target, to_bf16(total));
}

}  // namespace kiln
