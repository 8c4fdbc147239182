// Conversions between bf16 and fp32.
// May live here: conversions of bf16 scalars and of packed pairs. No loads, no arithmetic.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

// A packed pair holds the element of the lower address in its lower half. Both directions are
// exact.
__device__ __forceinline__ float low_to_float(uint32 pair) {
  return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float high_to_float(uint32 pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

// The value of one element, for templates that take either type.
__device__ __forceinline__ float to_float(bf16 value) {
  return low_to_float(value.bits);
}
__device__ __forceinline__ float to_float(float value) {
  return value;
}

// Round to nearest even; overflow gives infinity, a NaN gives a quiet NaN.
__device__ __forceinline__ bf16 to_bf16(float value) {
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}
__device__ __forceinline__ uint32 to_bf16_pair(float low, float high) {
  uint32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

}  // namespace kiln
