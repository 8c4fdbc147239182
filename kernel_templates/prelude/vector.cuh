// Vector loads from global memory.
// May live here: the widest loads each architecture has, for constant and for ordinary data, and
// the vector length that follows from them. No conversions.
//
// Every load is volatile, so that it stays on its side of the PDL wait (see pdl.cuh). Data that
// another kernel may have written takes load_16 or load_32: the read-only path of load_constant_*
// is not coherent with a grid that is still running.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

// Elements of bf16 in the widest vector one thread loads: 16 bytes, or 32 from sm_100 on.
#if __CUDA_ARCH__ >= 1000
constexpr int kVectorElements = 16;
#else
constexpr int kVectorElements = 8;
#endif

// 32-byte loads need sm_100 and a compiler that knows PTX ISA 8.8; without them a 32-byte vector is
// loaded in two halves.
#if __CUDA_ARCH__ >= 1000 && (__CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__) >= 1209
#define KILN_HAS_32_BYTE_LOADS 1
#else
#define KILN_HAS_32_BYTE_LOADS 0
#endif

// The address must be 16-byte aligned.
__device__ __forceinline__ void load_16(const void* address, uint32 (&words)[8], int first_word) {
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[first_word]), "=r"(words[first_word + 1]), "=r"(words[first_word + 2]),
                 "=r"(words[first_word + 3])
               : "l"(address)
               : "memory");
}

__device__ __forceinline__ void load_constant_16(const void* address, uint32 (&words)[8],
                                                 int first_word) {
  asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[first_word]), "=r"(words[first_word + 1]), "=r"(words[first_word + 2]),
                 "=r"(words[first_word + 3])
               : "l"(address)
               : "memory");
}

// The address must be 32-byte aligned.
__device__ __forceinline__ void load_32(const void* address, uint32 (&words)[8]) {
#if KILN_HAS_32_BYTE_LOADS
  asm volatile("ld.global.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]), "=r"(words[4]),
                 "=r"(words[5]), "=r"(words[6]), "=r"(words[7])
               : "l"(address)
               : "memory");
#else
  load_16(address, words, 0);
  load_16(static_cast<const char*>(address) + 16, words, 4);
#endif
}

__device__ __forceinline__ void load_constant_32(const void* address, uint32 (&words)[8]) {
#if KILN_HAS_32_BYTE_LOADS
  asm volatile("ld.global.nc.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]), "=r"(words[4]),
                 "=r"(words[5]), "=r"(words[6]), "=r"(words[7])
               : "l"(address)
               : "memory");
#else
  load_constant_16(address, words, 0);
  load_constant_16(static_cast<const char*>(address) + 16, words, 4);
#endif
}

}  // namespace kiln
