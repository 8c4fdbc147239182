// The rotation of the last 64 of a head's 512 elements, as 32 (even, odd) pairs.
// May live here: the geometry of a head, the look-up of a row's angles and the rotation itself.
// Every op that rotates uses this, so stored and in-place forms agree by construction.
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/types.cuh"
#include "prelude/vector8.cuh"

namespace kiln {

enum : uint32 {
  kHeadElements = 512,
  kHeadVectors = kHeadElements / 8,
  kRopeVectors = 64 / 8,  // the last ones of a head
  kPassedVectors = kHeadVectors - kRopeVectors,
  kAngles = 32,  // of a position: a cosine and a sine each
};

__device__ __forceinline__ int64 load_position(const int* address) {
  int position;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(position) : "l"(address) : "memory");
  return position;
}
__device__ __forceinline__ int64 load_position(const int64* address) {
  int64 position;
  asm volatile("ld.global.s64 %0, [%1];" : "=l"(position) : "l"(address) : "memory");
  return position;
}

// The angles of one of the kRopeVectors vectors of a head. freqs: [table_rows, kAngles] pairs of
// cosine and sine; a position outside the table takes its nearest row.
__device__ __forceinline__ void load_angles(const float* freqs, uint32 table_rows, int64 position,
                                            uint32 rope_vector, Vector8<float>& angles) {
  const int64 last = static_cast<int64>(table_rows) - 1;
  const int64 row = position < 0 ? 0 : position > last ? last : position;
  load(freqs + (row * (2 * kAngles) + rope_vector * 8), angles);
}

__device__ __forceinline__ void rotate(Vector8<bf16>& vector, const Vector8<float>& angles) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float even = low_to_float(vector.words[i]);
    const float odd = high_to_float(vector.words[i]);
    const float cosine = __uint_as_float(angles.words[2 * i]);
    const float sine = __uint_as_float(angles.words[2 * i + 1]);
    vector.words[i] = to_bf16_pair(__fmaf_rn(even, cosine, -__fmul_rn(odd, sine)),
                                   __fmaf_rn(even, sine, __fmul_rn(odd, cosine)));
  }
}

}  // namespace kiln
