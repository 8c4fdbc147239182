// Remainders of 64-bit numbers by divisors that are known before the numbers are.
// May live here: the reciprocal of a divisor and what is done with it. No memory accesses.
//
// For a divisor p with 1 <= p < 2^63 let m = floor((2^64 - 1) / p), so that 2^64 - 1 = m * p + r
// with 0 <= r < p. For a dividend h with 0 <= h < 2^64 let q = floor(h * m / 2^64). Then
//
//   h / p - h * m / 2^64 = h * (2^64 - m * p) / (p * 2^64) = h * (r + 1) / (p * 2^64),
//
// which is at least 0, and, as r + 1 <= p and h < 2^64, below 1. So h * m / 2^64 lies in
// (h / p - 1, h / p], and q = floor of it is floor(h / p) or floor(h / p) - 1. Hence h - q * p is
// h mod p or h mod p + p. It is below 2 * p < 2^64, so it is exact in 64 bits, and subtracting p
// once where it is not below p leaves h mod p.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

using uint64 = unsigned long long;

// m of the divisor p, 1 <= p < 2^63.
__device__ __forceinline__ uint64 reciprocal_of(uint64 p) {
  return ~uint64{0} / p;
}

// h mod p.
__device__ __forceinline__ uint64 remainder(uint64 h, uint64 p, uint64 reciprocal) {
  const uint64 rest = h - __umul64hi(h, reciprocal) * p;
  return rest < p ? rest : rest - p;
}

}  // namespace kiln
