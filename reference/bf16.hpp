#pragma once

/// \file
/// bfloat16 as its 16 bits.

#include <cstdint>

namespace kiln::reference {

/// The bits of one bfloat16: sign, 8 exponent bits, 7 mantissa bits.
using Bf16 = std::uint16_t;

/// Exact.
float to_float(Bf16 value) noexcept;

/// Rounds to nearest, ties to even; overflow gives infinity, a NaN gives a quiet NaN of its sign.
Bf16 to_bf16(float value) noexcept;

/// Whether the bits are equal, two NaNs counting as equal whatever theirs are.
bool same(Bf16 a, Bf16 b) noexcept;

/// The step between bf16 values in the binade of `value`: 2^-7 for 1 <= |value| < 2, at least the
/// smallest subnormal, at most the step below infinity.
double bf16_ulp(double value) noexcept;

}  // namespace kiln::reference
