// Loads of integers whose width is known at run time.
// May live here: index-like inputs, which each op takes as int32 or int64. Every access is
// volatile, for the reasons that vector.cuh gives.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

// Element `index` of an array of int64 (`wide`) or int32.
__device__ __forceinline__ int64 load_index(const void* array, int64 index, bool wide) {
  int64 value;
  if (wide) {
    asm volatile("ld.global.s64 %0, [%1];"
                 : "=l"(value)
                 : "l"(static_cast<const int64*>(array) + index)
                 : "memory");
  } else {
    int narrow;
    asm volatile("ld.global.s32 %0, [%1];"
                 : "=r"(narrow)
                 : "l"(static_cast<const int*>(array) + index)
                 : "memory");
    value = narrow;
  }
  return value;
}

__device__ __forceinline__ int load_int(const int* address) {
  int value;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

__device__ __forceinline__ int64 load_int64(const int64* address) {
  int64 value;
  asm volatile("ld.global.s64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}

__device__ __forceinline__ void store_int64(int64* address, int64 value) {
  asm volatile("st.global.s64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

}  // namespace kiln
