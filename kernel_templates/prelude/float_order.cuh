// fp32 values as unsigned integers of the same order.
// May live here: the two orders and the way back, and the maximum that agrees with both. Nothing
// that needs memory.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

enum : uint32 {
  kNegativeInfinity = 0xff800000u,  // as bits of fp32
  kPositiveInfinity = 0x7f800000u,
  kNegativeInfinityKey = 0x007fffffu,  // the least key there is
  kNanKey = 0xffffffffu,               // that of every NaN, above the one of +inf
};

__device__ __forceinline__ bool is_nan(uint32 bits) {
  return (bits & 0x7fffffffu) > kPositiveInfinity;
}

// The order of a maximum: -0 is below +0.
__device__ __forceinline__ uint32 max_key(uint32 bits) {
  const uint32 flips = (bits >> 31) != 0 ? 0xffffffffu : 0x80000000u;
  return is_nan(bits) ? uint32{kNanKey} : bits ^ flips;
}

// The order of a comparison: -0 equals +0.
__device__ __forceinline__ uint32 order_key(uint32 bits) {
  return max_key(bits == 0x80000000u ? 0u : bits);
}

// The bits of a value with this max_key.
__device__ __forceinline__ uint32 value_of(uint32 key) {
  return (key >> 31) != 0 ? key ^ 0x80000000u : ~key;
}

// The larger value; a NaN is larger than any number.
__device__ __forceinline__ float max_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

}  // namespace kiln
