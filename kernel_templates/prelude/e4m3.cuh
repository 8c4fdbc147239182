// Values of e4m3 and e8m0 as fp32.
// May live here: these conversions, and loads of what they take. Both are exact.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

// 8 elements of e4m3, the one of the lowest address first; past L1, since nothing in the CTA reads
// them again. The address must be 8-byte aligned.
__device__ __forceinline__ void load_8(const uint8* address, uint32 (&words)[2]) {
  asm volatile("ld.global.L1::no_allocate.v2.b32 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "l"(address)
               : "memory");
}

__device__ __forceinline__ uint32 load_byte(const uint8* address) {
  uint32 value;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

__device__ __forceinline__ void e4m3_to_float(const uint32 (&words)[2], float (&values)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint16 pair = static_cast<uint16>(words[i / 2] >> (i % 2 * 16));
    asm("{\n"
        ".reg .b32 halves;\n"
        ".reg .b16 low, high;\n"
        "cvt.rn.f16x2.e4m3x2 halves, %2;\n"
        "mov.b32 {low, high}, halves;\n"
        "cvt.f32.f16 %0, low;\n"
        "cvt.f32.f16 %1, high;\n"
        "}"
        : "=f"(values[2 * i]), "=f"(values[2 * i + 1])
        : "h"(pair));
  }
}

// 2^(exponent - 127); of 0 that is subnormal, of 255 a NaN.
__device__ __forceinline__ float e8m0_to_float(uint32 exponent) {
  const uint32 bits = exponent == 0 ? 0x00400000u : exponent << 23;
  return __uint_as_float(exponent == 255 ? 0x7fc00000u : bits);
}

}  // namespace kiln
