// Consecutive logits that one thread takes, alone or four at once.
// May live here: their loads and stores, and the mask of what lies past a row's length.
#pragma once

#include "prelude/float_order.cuh"
#include "prelude/global.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"

namespace kiln {

__device__ __forceinline__ bool on_16_bytes(const void* pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % 16 == 0;
}

// W bytes as the lowest of a word. The address is a multiple of W.
template <uint32 W>
__device__ __forceinline__ uint32 load_bytes(const uint8* address) {
  uint32 bytes;
  if constexpr (W == 4) {
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(bytes) : "l"(address) : "memory");
  } else {
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(bytes) : "l"(address) : "memory");
  }
  return bytes;
}

// W is 1, or 4 on 16-byte boundaries.
template <uint32 W>
struct LogitGroup {
  uint32 bits[W];

  __device__ __forceinline__ void load(const float* address) {
    if constexpr (W == 4) {
      load_16<0>(address, bits);
    } else {
      bits[0] = __float_as_uint(load_element(address));
    }
  }
  __device__ __forceinline__ void store(float* address) const {
    if constexpr (W == 4) {
      store_16<0>(address, bits);
    } else {
      store_4(address, bits[0]);
    }
  }
  // The element at `position` and those after it, past a row's length.
  __device__ __forceinline__ void mask(uint32 position, uint32 length) {
#pragma unroll
    for (uint32 i = 0; i < W; ++i)
      bits[i] = position + i < length ? bits[i] : uint32{kNegativeInfinity};
  }
};

}  // namespace kiln
