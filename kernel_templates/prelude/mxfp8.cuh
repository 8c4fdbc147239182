// MXFP8: groups of 32 elements along a row as e4m3, with one e8m0 scale byte each.
// May live here: scale, quantisation, the swizzled layout of scales and the zeroing of its padding.
// Every op that quantises uses this, so fused and unfused forms agree by construction.
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/global.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector8.cuh"

namespace kiln {

__device__ __forceinline__ uint32 magnitudes(uint32 pair) {
  return pair & 0x7fff7fffu;
}

// The larger of each half; a NaN gives way to a number.
__device__ __forceinline__ uint32 max_pair(uint32 a, uint32 b) {
  uint32 result;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// The largest magnitude of a group whose 32 elements four lanes hold: lanes 4i .. 4i + 3 of a warp
// get that of theirs. All lanes of the warp must call it.
__device__ __forceinline__ float group_max_magnitude(const Vector8<bf16>& values) {
  uint32 most = max_pair(max_pair(magnitudes(values.words[0]), magnitudes(values.words[1])),
                         max_pair(magnitudes(values.words[2]), magnitudes(values.words[3])));
  most = max_pair(most, __shfl_xor_sync(0xffffffffu, most, 1));
  most = max_pair(most, __shfl_xor_sync(0xffffffffu, most, 2));
  return fmaxf(low_to_float(most), high_to_float(most));
}

// The exponent byte of max_magnitude / 448, rounded up; a subnormal rounds up to 1 only above half
// of the smallest normal number. 254 for infinity and NaN.
__device__ __forceinline__ uint32 scale_byte(float max_magnitude) {
  const uint32 bits = __float_as_uint(__fmul_rn(max_magnitude, 1.0f / 448.0f));
  const uint32 rounding = bits < 0x00800000u ? 0x003fffffu : 0x007fffffu;
  return min((bits + rounding) >> 23, 254u);
}

// 2^(127 - scale) in both halves, 0 for the scales 0 and 254.
__device__ __forceinline__ uint32 inverse_scale(uint32 scale) {
  return scale == 0 ? 0 : (254u - scale) * 0x00800080u;
}

// Two values times `inverse`, rounded to nearest even and saturated; a NaN becomes 448. The product
// is that of fp32: a power of two changes the exponent alone, and what leaves the range of normal
// numbers is far below the smallest e4m3.
__device__ __forceinline__ uint32 quantize_pair(uint32 pair, uint32 inverse) {
  constexpr uint32 kLargest = 0x43e043e0u;  // 448 in both halves
#if __CUDA_ARCH__ >= 900
  asm("mul.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(inverse));
#endif
  asm("min.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(kLargest));
  uint16 result;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
      : "=h"(result)
      : "f"(high_to_float(pair)), "f"(low_to_float(pair)));
  return result;
}

// One lane's part of a group (see group_max_magnitude): its 8 elements, and the group's scale byte.
struct QuantizedVector {
  uint32 words[2];
  uint32 scale;
};

__device__ __forceinline__ QuantizedVector quantize(const Vector8<bf16>& values) {
  QuantizedVector result;
  result.scale = scale_byte(group_max_magnitude(values));
  const uint32 inverse = inverse_scale(result.scale);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    result.words[i] = quantize_pair(values.words[2 * i], inverse) |
                      quantize_pair(values.words[2 * i + 1], inverse) << 16;
  }
  return result;
}

// The outputs of a quantised [m, k] matrix: q is [m, k], row-major. The scales of 128 rows times 4
// groups are a block of 512 bytes, in which row r and group g have byte (r % 32) * 16 + r / 32 * 4
// + g; a row of blocks lies together. Rows of more than 2^30 elements, whose scales reach over more
// than 2^32 bytes, need LONG_ROWS, which costs a register or two.
template <bool LONG_ROWS>
struct Mxfp8Matrix {
  uint8* q;
  uint8* scales;
  uint32 m;
  uint32 k;

  __device__ __forceinline__ uint32 vectors() const { return k / 8; }
  // 4 vectors to a group, 4 groups to a block.
  __device__ __forceinline__ uint32 blocks() const { return (vectors() + 15) / 16; }

  // Where a row's elements begin, and the byte of its first group.
  struct Row {
    uint8* q;
    uint8* scales;
  };
  __device__ __forceinline__ Row row(uint32 row) const {
    return {q + static_cast<int64>(row) * k, scales +
                                                 static_cast<int64>(row / 128) * blocks() * 512 +
                                                 (row % 32 * 16 + row % 128 / 32 * 4)};
  }

  // Stores one lane's vector of a row. Lanes hold consecutive vectors; a lane whose vector lies
  // past the end of the row, but in its last block, zeroes that group's byte instead.
  __device__ __forceinline__ void store(const Row& row, uint32 vector,
                                        const QuantizedVector& value) const {
    const bool inside = vector < vectors();
    if (inside)
      store_8(row.q + vector * 8, value.words);
    if (vector % 4 == 0 && vector / 16 < blocks()) {
      const uint32 byte = inside ? value.scale : 0;
      if constexpr (LONG_ROWS) {
        store_1(row.scales + (static_cast<int64>(vector / 16) * 512 + vector / 4 % 4), byte);
      } else {
        store_1(row.scales + (vector / 16 * 512 + vector / 4 % 4), byte);
      }
    }
  }

  // Zeroes the bytes of the rows from m to the next multiple of 128, together with other threads of
  // the grid: this is number `thread` of `threads`.
  __device__ __forceinline__ void zero_padding(uint32 thread, uint32 threads) const {
    const uint32 first = m % 128;
    if (first == 0)
      return;
    uint8* const tile = scales + static_cast<int64>(m / 128) * blocks() * 512;
    const bool aligned = reinterpret_cast<unsigned long long>(scales) % 16 == 0;
#pragma unroll 1
    for (uint32 chunk = thread; chunk < blocks() * 32; chunk += threads) {
      // 4 bytes each of rows r, r + 32, r + 64 and r + 96.
      const uint32 row = chunk % 32;
      uint8* const bytes = tile + static_cast<int64>(chunk) * 16;
      const uint32 rows_used = row < first ? (first - row + 31) / 32 : 0;
      if (aligned) {
        const uint32 zeros[4] = {};
        if (rows_used == 0) {
          store_16<0>(bytes, zeros);
        } else {
#pragma unroll
          for (uint32 i = 1; i < 4; ++i) {
            if (i >= rows_used)
              store_4(bytes + i * 4, 0);
          }
        }
      } else {
#pragma unroll 1
        for (uint32 i = rows_used * 4; i < 16; ++i)
          store_1(bytes + i, 0);
      }
    }
  }
};

}  // namespace kiln
