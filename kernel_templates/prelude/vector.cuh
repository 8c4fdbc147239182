// Vector loads from global memory, and the store of one bf16.
// May live here: the widest accesses each architecture has, and the vector length that follows
// from them. No conversions.
//
// Every access is volatile, so that it stays on its side of the PDL wait (see pdl.cuh). None takes
// the read-only path (ld.global.nc), not even for constant data: the assembler moves such a load
// across griddepcontrol.wait. Seen both to cost time (weights loaded after the wait instead of
// before it), and it would be wrong the other way round, for weights that must be read after it.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

// Elements of bf16 in the widest vector one thread loads: 16 bytes, or 32 from sm_100 on.
// Enumerators, here and elsewhere: a constexpr variable of namespace scope would get storage in
// every module.
#if __CUDA_ARCH__ >= 1000
enum : int { kVectorElements = 16 };
#else
enum : int { kVectorElements = 8 };
#endif

// Loads words [FIRST, FIRST + 4). The address must be 16-byte aligned.
template <int FIRST, int WORDS>
__device__ __forceinline__ void load_16(const void* address, uint32 (&words)[WORDS]) {
  static_assert(FIRST + 4 <= WORDS);
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[FIRST]), "=r"(words[FIRST + 1]), "=r"(words[FIRST + 2]),
                 "=r"(words[FIRST + 3])
               : "l"(address)
               : "memory");
}

// The address must be 32-byte aligned. One instruction takes sm_100 and a compiler that knows PTX
// ISA 8.8; otherwise the vector is loaded in two halves.
__device__ __forceinline__ void load_32(const void* address, uint32 (&words)[8]) {
#if __CUDA_ARCH__ >= 1000 && (__CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__) >= 1209
  asm volatile("ld.global.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]), "=r"(words[4]),
                 "=r"(words[5]), "=r"(words[6]), "=r"(words[7])
               : "l"(address)
               : "memory");
#else
  load_16<0>(address, words);
  load_16<4>(static_cast<const char*>(address) + 16, words);
#endif
}

__device__ __forceinline__ void store(bf16* address, bf16 value) {
  asm volatile("st.global.b16 [%0], %1;" ::"l"(address), "h"(value.bits) : "memory");
}

}  // namespace kiln
