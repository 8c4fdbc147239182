// Stores of vectors and bytes to global memory, and loads of single elements.
// May live here: accesses that vector.cuh does not have. No conversions.
//
// Every access is volatile and none takes the read-only path, for the reasons that vector.cuh
// gives.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

__device__ __forceinline__ bf16 load_element(const bf16* address) {
  bf16 value;
  asm volatile("ld.global.b16 %0, [%1];" : "=h"(value.bits) : "l"(address) : "memory");
  return value;
}
__device__ __forceinline__ float load_element(const float* address) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
  return value;
}

// Stores words [FIRST, FIRST + 4). The address must be 16-byte aligned.
template <int FIRST, int WORDS>
__device__ __forceinline__ void store_16(void* address, const uint32 (&words)[WORDS]) {
  static_assert(FIRST + 4 <= WORDS);
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(words[FIRST]),
               "r"(words[FIRST + 1]), "r"(words[FIRST + 2]), "r"(words[FIRST + 3])
               : "memory");
}

// The address must be 8-byte aligned.
__device__ __forceinline__ void store_8(void* address, const uint32 (&words)[2]) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(words[0]), "r"(words[1])
               : "memory");
}

__device__ __forceinline__ void store_4(void* address, uint32 word) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(address), "r"(word) : "memory");
}

// Brings the line of an address into L2. A hint that reads nothing: what a prerequisite writes
// there later is what a load after the wait sees, so it may come before the wait.
__device__ __forceinline__ void prefetch_to_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}

// Passes L1 by: nothing in the CTA will read it. The address must be 16-byte aligned.
__device__ __forceinline__ void store_16_once(void* address, const uint32 (&words)[4]) {
  asm volatile("st.global.L1::no_allocate.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// Stores the lowest byte of `value`.
__device__ __forceinline__ void store_1(void* address, uint32 value) {
  asm volatile("st.global.b8 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

}  // namespace kiln
