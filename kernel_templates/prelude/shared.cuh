// Accesses to shared memory by 32-bit address.
// May live here: address conversion, and loads and stores through such addresses.
//
// An address in a register is worked out once, where the kernel has time for it; through a pointer
// the compiler reads the CTA's shared window again at every access.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

__device__ __forceinline__ uint32 shared_address(const void* pointer) {
  return static_cast<uint32>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void store_shared(uint32 address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// Loads values [FIRST, FIRST + 4), or [FIRST, FIRST + 2), from the address of values[0]. Each part
// must be aligned to its size.
template <int FIRST, int COUNT>
__device__ __forceinline__ void load_shared_4(uint32 address, float (&values)[COUNT]) {
  static_assert(FIRST + 4 <= COUNT);
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values[FIRST]), "=f"(values[FIRST + 1]), "=f"(values[FIRST + 2]),
                 "=f"(values[FIRST + 3])
               : "r"(address + FIRST * 4)
               : "memory");
}

template <int FIRST, int COUNT>
__device__ __forceinline__ void load_shared_2(uint32 address, float (&values)[COUNT]) {
  static_assert(FIRST + 2 <= COUNT);
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(values[FIRST]), "=f"(values[FIRST + 1])
               : "r"(address + FIRST * 4)
               : "memory");
}

}  // namespace kiln
