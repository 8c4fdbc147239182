// The logistic function in fp32, from operations whose results are the same everywhere.
// May live here: exp and what is made of it, without an approximate instruction, so that a CPU gets
// the same bits (reference/engram_gate.cpp walks the same steps).
#pragma once

#include "prelude/types.cuh"

namespace kiln {

// exp(-a) for a >= 0 within 2 units of the last place; a NaN stays one. Underflow is gradual.
__device__ __forceinline__ float exp_of_negative(float a) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // In 9 bits: its products with n are exact.
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;           // 1.5 * 2^23: adding it rounds to an integer.
  const float bounded = a > 150.0f ? 150.0f : a;  // Far below the smallest subnormal.
  const float shifted = __fmaf_rn(bounded, -kLog2E, kRound);
  const float n = __fsub_rn(shifted, kRound);
  const float r = __fmaf_rn(n, -kLn2Low, __fmaf_rn(n, -kLn2High, -bounded));
  float p = 1.0f / 5040;
  p = __fmaf_rn(p, r, 1.0f / 720);
  p = __fmaf_rn(p, r, 1.0f / 120);
  p = __fmaf_rn(p, r, 1.0f / 24);
  p = __fmaf_rn(p, r, 1.0f / 6);
  p = __fmaf_rn(p, r, 0.5f);
  p = __fmaf_rn(p, r, 1.0f);
  p = __fmaf_rn(p, r, 1.0f);
  // 2^n in two factors, neither of which is subnormal.
  const int whole = static_cast<int>(__float_as_uint(shifted) - 0x4b400000u);
  const int half = whole >> 1;
  const float low = __uint_as_float(static_cast<uint32>(half + 127) << 23);
  const float high = __uint_as_float(static_cast<uint32>(whole - half + 127) << 23);
  return __fmul_rn(__fmul_rn(p, low), high);
}

__device__ __forceinline__ float sigmoid(float z) {
  const float e = exp_of_negative(fabsf(z));
  return __fdiv_rn(z < 0.0f ? e : 1.0f, __fadd_rn(1.0f, e));
}

}  // namespace kiln
