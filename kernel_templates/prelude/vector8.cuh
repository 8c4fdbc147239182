// Vectors of 8 elements of bf16 or fp32: what one thread of a row op takes at once.
// May live here: their loads, stores and conversions to fp32 and back.
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/global.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"

namespace kiln {

// As in memory. T is bf16 or float; addresses are 16-byte aligned.
template <typename T>
struct Vector8 {
  uint32 words[sizeof(T) * 2];
};

template <typename T>
__device__ __forceinline__ void load(const T* address, Vector8<T>& vector) {
  load_16<0>(address, vector.words);
  if constexpr (sizeof(T) == 4)
    load_16<4>(address + 4, vector.words);
}

template <typename T>
__device__ __forceinline__ void store(T* address, const Vector8<T>& vector) {
  store_16<0>(address, vector.words);
  if constexpr (sizeof(T) == 4)
    store_16<4>(address + 4, vector.words);
}

__device__ __forceinline__ void to_float(const Vector8<bf16>& vector, float (&values)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = low_to_float(vector.words[i]);
    values[2 * i + 1] = high_to_float(vector.words[i]);
  }
}
__device__ __forceinline__ void to_float(const Vector8<float>& vector, float (&values)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i)
    values[i] = __uint_as_float(vector.words[i]);
}

// Keeps the vector as it is in memory from here on: the compiler would otherwise convert what does
// not change in a loop once, and hold it in twice the registers.
template <typename T>
__device__ __forceinline__ void keep_packed(Vector8<T>& vector) {
#pragma unroll
  for (uint32& word : vector.words)
    asm volatile("" : "+r"(word));
}

// Each value is rounded once; to float, not at all.
__device__ __forceinline__ void from_float(const float (&values)[8], Vector8<bf16>& vector) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    vector.words[i] = to_bf16_pair(values[2 * i], values[2 * i + 1]);
}
__device__ __forceinline__ void from_float(const float (&values)[8], Vector8<float>& vector) {
#pragma unroll
  for (int i = 0; i < 8; ++i)
    vector.words[i] = __float_as_uint(values[i]);
}

}  // namespace kiln
