// y[m, g, r] = sum over d of x[m, g, d] * w[g, r, d], for a few tokens m: what the CTAs of both
// small batch kernels do up to the sums in fp32. May live here: the order of summation, and how
// outputs are spread over warps. Not what becomes of the sums.
//
// Order of summation: a step is 256 elements of d, of which lane t has [t * 8, t * 8 + 8). Slice s
// of 2 takes steps s, s + 2, ...: each of its lanes starts from 0 and adds the products one fma
// after the other; the lanes are added in pairs whose numbers differ in one bit: 16, 8, 4, 2, 1.
// The second slice is added to the first.
//
// A CTA has some consecutive outputs (g, r) of all tokens. Its warps are 2 slices times groups of
// outputs; none of this can change a bit of the result.
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/shared.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"
#include "prelude/vector8.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 {
  kSlices = 2,
  kStepElements = 256,
  kTileOutputs = 16,  // of a CTA
  kTileThreads = 256,
};

// x: [m, g, d], strided in m and g. w: [g, r, d], constant. d is a multiple of 256, r one of 16.
struct WoA {
  const bf16* x;
  int64 x_row_stride;
  int64 x_group_stride;
  const bf16* w;
  uint32 m;
  uint32 r;
  uint32 d;
  bool constants_early;
};

// TOKENS: m rounded up to 4, 8 or 16. A warp computes kRows outputs of all tokens. Few warps with
// many registers: weights under way need them, and so do the sums.
template <int TOKENS>
struct WoATile {
  enum : int {
    kRows = 4,
    kSums = kRows * TOKENS,
    kSumsAtOnce = kSums < int{kWarpLanes} ? kSums : int{kWarpLanes},
    kDepth = 4,  // steps of weights under way
    kTokensAtOnce = 4,
  };
  static_assert(kSlices * kTileOutputs / kRows * kWarpLanes == kTileThreads);
  // What the warps of each slice have summed up: [slice][output of the CTA][token].
  struct Storage {
    alignas(16) float sums[kSlices][kTileOutputs][TOKENS];
  };

  // Called by all threads of the CTA whose first output is `first`. PDL: waits, with weights under
  // way, and calls `after_wait` then. All sums are in `storage` when it returns.
  template <bool PDL, class AfterWait>
  static __device__ __forceinline__ void compute(const WoA& problem, uint32 first, Storage& storage,
                                                 const AfterWait& after_wait) {
    const uint32 lane = threadIdx.x % kWarpLanes;
    const uint32 warp = threadIdx.x / kWarpLanes;
    const uint32 slice = warp % kSlices;
    const uint32 row = warp / kSlices * kRows;  // of the CTA's outputs
    const uint32 offset = slice * kStepElements + lane * 8;
    const bf16* w = problem.w + (static_cast<int64>(first + row) * problem.d + offset);
    const bf16* x = problem.x + (first / problem.r * problem.x_group_stride + offset);
    constexpr uint32 kAdvance = kSlices * kStepElements;

    Vector8<bf16> weights[kDepth][kRows];
    const auto load_weights = [&](uint32 begin, Vector8<bf16>(&to)[kRows]) {
      if (begin + slice * kStepElements < problem.d) {
#pragma unroll
        for (int i = 0; i < kRows; ++i)
          load(w + (static_cast<int64>(i) * problem.d + begin), to[i]);
      }
    };
    float sums[kSums] = {};
    const auto add_step = [&](uint32 begin, const Vector8<bf16>(&from)[kRows]) {
      float w_values[kRows][8];
#pragma unroll
      for (int i = 0; i < kRows; ++i)
        to_float(from[i], w_values[i]);
      // Hidden from the compiler, which would otherwise hold an address for every token.
      uint32 last = problem.m - 1;
      asm volatile("" : "+r"(last));
#pragma unroll
      for (int token = 0; token < TOKENS; token += kTokensAtOnce) {
        Vector8<bf16> activations[kTokensAtOnce];
#pragma unroll
        for (int i = 0; i < kTokensAtOnce; ++i) {
          // Tokens past the end repeat the last one, so that loads need no predicate.
          const uint32 number = min(static_cast<uint32>(token + i), last);
          load(x + (number * problem.x_row_stride + begin), activations[i]);
        }
#pragma unroll
        for (int i = 0; i < kTokensAtOnce; ++i) {
          float x_values[8];
          to_float(activations[i], x_values);
#pragma unroll
          for (int e = 0; e < 8; ++e) {
#pragma unroll
            for (int k = 0; k < kRows; ++k) {
              float& sum = sums[k * TOKENS + token + i];
              sum = __fmaf_rn(x_values[e], w_values[k][e], sum);
            }
          }
        }
      }
    };

    const auto begin_weights = [&] {
#pragma unroll
      for (uint32 i = 0; i < kDepth; ++i)
        load_weights(i * kAdvance, weights[i]);
    };
    const bool early = !PDL || problem.constants_early;
    if (early)
      begin_weights();
    wait_for_prerequisites<PDL>();
    if (!early)
      begin_weights();
    after_wait();
#pragma unroll 1
    for (uint32 begin = 0; begin < problem.d; begin += kDepth * kAdvance) {
#pragma unroll
      for (uint32 i = 0; i < kDepth; ++i) {
        const uint32 step = begin + i * kAdvance;
        if (step + slice * kStepElements < problem.d) {
          add_step(step, weights[i]);
          load_weights(step + kDepth * kAdvance, weights[i]);
        }
      }
    }

    // Lane i gets the sum of value i / kLanesPerSum.
    constexpr int kLanesPerSum = kWarpLanes / kSumsAtOnce;
#pragma unroll
    for (int part = 0; part < kSums; part += kSumsAtOnce) {
      float values[kSumsAtOnce];
#pragma unroll
      for (int i = 0; i < kSumsAtOnce; ++i)
        values[i] = sums[part + i];
      const float sum = sum_over_lanes(values, lane);
      if (lane % kLanesPerSum == 0) {
        const uint32 value = part + lane / kLanesPerSum;
        storage.sums[slice][row + value / TOKENS][value % TOKENS] = sum;
      }
    }
    __syncthreads();
  }

  // One sum, of output number `output` of the CTA.
  static __device__ __forceinline__ float total(const Storage& storage, uint32 output,
                                                uint32 token) {
    return __fadd_rn(storage.sums[0][output][token], storage.sums[1][output][token]);
  }
};

}  // namespace kiln
