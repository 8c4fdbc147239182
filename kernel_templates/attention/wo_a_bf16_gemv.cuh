// y[g, r] = sum over d of x[g, d] * w[g, r, d], for one token.
// May live here: this kernel alone.
//
// A warp computes one output. Order of summation: lane t starts from 0 and adds the products of
// elements [(32 * i + t) * 8, + 8), i = 0, 1, ..., one fma after the other; the lanes are added in
// pairs whose numbers differ in one bit: 16, 8, 4, 2, 1. Launch: block (256), grid (ceil(g * r /
// 8)), no dynamic shared memory.
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"
#include "prelude/vector8.cuh"
#include "prelude/warp.cuh"

namespace kiln {

// x: [g, d]. w: [g, r, d], constant. y: [g, r]. All contiguous and aligned to 16 bytes; d is a
// multiple of 256. constants_early: false moves the reads of w behind the PDL wait.
template <bool PDL>
__global__ void __launch_bounds__(256, 2)
    wo_a_bf16_gemv(const bf16* x, const bf16* w, bf16* y, int g, int r, int d,
                   bool constants_early) {
  constexpr uint32 kWarps = 8;
  constexpr uint32 kStep = kWarpLanes * 8;  // elements that a warp takes with one vector per lane
  constexpr uint32 kVectors = 16;           // of w that a lane has under way
  constexpr uint32 kBatch = 4;              // of x
  launch_dependents<PDL>();
  const uint32 lane = threadIdx.x % kWarpLanes;
  const uint32 outputs = static_cast<uint32>(g) * static_cast<uint32>(r);
  const uint32 length = static_cast<uint32>(d);
  const uint32 output = blockIdx.x * kWarps + threadIdx.x / kWarpLanes;
  if (output >= outputs) {
    wait_for_prerequisites<PDL>();
    return;
  }
  const bf16* w_lane = w + (static_cast<int64>(output) * d + lane * 8);
  const bf16* x_lane = x + (static_cast<int64>(output / static_cast<uint32>(r)) * d + lane * 8);
  bf16* target = y + output;
  pin<PDL>(x_lane);
  pin<PDL>(target);

  Vector8<bf16> weights[kVectors];
  const auto load_weights = [&](uint32 begin) {
#pragma unroll
    for (uint32 i = 0; i < kVectors; ++i) {
      if (begin + i * kStep < length)
        load(w_lane + (begin + i * kStep), weights[i]);
    }
  };
  Vector8<bf16> activations[2][kBatch];
  const auto load_activations = [&](uint32 begin, Vector8<bf16>(&batch)[kBatch]) {
#pragma unroll
    for (uint32 i = 0; i < kBatch; ++i) {
      if (begin + i * kStep < length)
        load(x_lane + (begin + i * kStep), batch[i]);
    }
  };

  if (!PDL || constants_early)
    load_weights(0);
  wait_for_prerequisites<PDL>();
  float sum = 0.0f;
#pragma unroll 1
  for (uint32 begin = 0; begin < length; begin += kVectors * kStep) {
    if (begin > 0 || (PDL && !constants_early))
      load_weights(begin);
    load_activations(begin, activations[0]);
#pragma unroll
    for (uint32 b = 0; b < kVectors / kBatch; ++b) {
      const uint32 next = begin + (b + 1) * kBatch * kStep;
      if (b + 1 < kVectors / kBatch)
        load_activations(next, activations[(b + 1) % 2]);
#pragma unroll
      for (uint32 i = 0; i < kBatch; ++i) {
        if (begin + (b * kBatch + i) * kStep < length) {
          float x_values[8];
          float w_values[8];
          to_float(activations[b % 2][i], x_values);
          to_float(weights[b * kBatch + i], w_values);
#pragma unroll
          for (int e = 0; e < 8; ++e)
            sum = __fmaf_rn(x_values[e], w_values[e], sum);
        }
      }
    }
  }
  const float sums[1] = {sum};
  const float total = sum_over_lanes(sums, lane);
  if (lane == 0)
    store(target, to_bf16(total));
}

}  // namespace kiln
