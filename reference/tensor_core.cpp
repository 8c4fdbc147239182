#include "reference/tensor_core.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace kiln::reference {
namespace {

constexpr int kFractionBits = 7;  // Of bf16.
constexpr int kBias = 127;
constexpr int kKeptBits = 25;  // Of a product, below the largest exponent.

/// mantissa * 2^(exponent - kFractionBits).
struct Parts {
  std::int64_t mantissa;
  int exponent;
};

Parts parts_of(Bf16 value) {
  const int field = value >> kFractionBits & 0xFF;
  const std::int64_t fraction = value & 0x7F;
  const std::int64_t mantissa = field == 0 ? fraction : fraction | 0x80;
  return {(value & 0x8000) != 0 ? -mantissa : mantissa, std::max(field, 1) - kBias};
}

bool is_finite(Bf16 value) {
  return (value & 0x7F80) != 0x7F80;
}

/// Toward zero, which is +0; at and above 2^128 an infinity.
float cut_to_float(double value) {
  const auto nearest = static_cast<float>(value);
  const bool outward = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  const float cut =
      outward && std::fabs(value) < std::ldexp(1.0, 128) ? std::nextafter(nearest, 0.0F) : nearest;
  return cut == 0 ? 0.0F : cut;
}

/// value * 2^shift, cut off toward zero.
std::int64_t shifted(std::int64_t value, int shift) {
  if (shift >= 0) {
    return value * (std::int64_t{1} << shift);
  }
  const std::int64_t magnitude = std::abs(value) >> std::min(-shift, 63);
  return value < 0 ? -magnitude : magnitude;
}

}  // namespace

float tensor_core_sum(const std::array<Bf16, kTensorProducts>& a,
                      const std::array<Bf16, kTensorProducts>& b) noexcept {
  std::array<Parts, kTensorProducts> products{};
  int largest = std::numeric_limits<int>::min();
  bool finite = true;
  double plain = 0;
  for (std::size_t i = 0; i < kTensorProducts; ++i) {
    finite = finite && is_finite(a[i]) && is_finite(b[i]);
    plain += static_cast<double>(to_float(a[i])) * static_cast<double>(to_float(b[i]));
    const Parts left = parts_of(a[i]);
    const Parts right = parts_of(b[i]);
    products[i] = {left.mantissa * right.mantissa, left.exponent + right.exponent};
    if (products[i].mantissa != 0) {
      largest = std::max(largest, products[i].exponent);
    }
  }
  if (!finite) {
    return static_cast<float>(plain);  // An infinity or NaN.
  }
  std::int64_t sum = 0;  // Times 2^(kKeptBits - largest).
  for (const Parts& product : products) {
    if (product.mantissa != 0) {
      sum += shifted(product.mantissa, product.exponent - largest + kKeptBits - 2 * kFractionBits);
    }
  }
  return sum == 0 ? 0.0F : cut_to_float(std::ldexp(static_cast<double>(sum), largest - kKeptBits));
}

}  // namespace kiln::reference
