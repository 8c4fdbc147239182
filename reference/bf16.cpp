#include "reference/bf16.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kiln::reference {

float to_float(Bf16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

Bf16 to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) {
    constexpr std::uint32_t kQuiet = 0x0040;
    return static_cast<Bf16>((bits >> 16) | kQuiet);
  }
  // Half a unit of the last kept place, less one if that place is even: a tie then carries only
  // into an odd one. A carry out of the mantissa raises the exponent, as it should, up to infinity.
  const std::uint32_t last_kept = (bits >> 16) & 1U;
  return static_cast<Bf16>((bits + 0x7fffU + last_kept) >> 16);
}

bool same(Bf16 a, Bf16 b) noexcept {
  return a == b || (std::isnan(to_float(a)) && std::isnan(to_float(b)));
}

double bf16_ulp(double value) noexcept {
  constexpr int kMantissaBits = 7;
  constexpr int kSmallestExponent = -126;
  constexpr int kLargestExponent = 127;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| = f * 2^exponent with f in [0.5, 1).
  if (value == 0) {
    exponent = kSmallestExponent;
  }
  if (!std::isfinite(value)) {
    exponent = kLargestExponent + 1;
  }
  return std::ldexp(1.0,
                    std::clamp(exponent - 1, kSmallestExponent, kLargestExponent) - kMantissaBits);
}

}  // namespace kiln::reference
