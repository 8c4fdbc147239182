// Quotients and remainders by a divisor that is known before the dividends are.
// May live here: the reciprocal of a 32-bit divisor and what is done with it. No memory accesses.
//
// The proof of prelude/remainder.cuh with 32 bits in place of 64: for a divisor p with
// 1 <= p < 2^31, m = floor((2^32 - 1) / p) and a dividend n < 2^32, floor(n * m / 2^32) is
// floor(n / p) or floor(n / p) - 1, and n less that many p is below 2 * p < 2^32.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

struct Divisor {
  uint32 value;
  uint32 reciprocal;

  // 1 <= divisor < 2^31.
  __device__ __forceinline__ explicit Divisor(uint32 divisor)
      : value(divisor), reciprocal(0xffffffffu / divisor) {}

  // floor(n / value); `rest` becomes n mod value.
  __device__ __forceinline__ uint32 divide(uint32 n, uint32& rest) const {
    const uint32 quotient = __umulhi(n, reciprocal);
    const uint32 left = n - quotient * value;
    const bool short_of_one = left >= value;
    rest = short_of_one ? left - value : left;
    return short_of_one ? quotient + 1 : quotient;
  }
  __device__ __forceinline__ uint32 divide(uint32 n) const {
    uint32 rest;
    return divide(n, rest);
  }
  // Of 1 <= n.
  __device__ __forceinline__ uint32 divide_up(uint32 n) const { return divide(n - 1) + 1; }
};

}  // namespace kiln
