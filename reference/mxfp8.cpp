#include "reference/mxfp8.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace kiln::reference {
namespace {

constexpr float kLargest = 448;
constexpr std::int64_t kGroup = 32;

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// The larger one, or the one that is a number. Not std::fmax, which gives NaN for a signaling NaN
// beside a number.
float larger(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) ? b : a;
  }
  return std::max(a, b);
}

}  // namespace

std::uint8_t to_e4m3(float value) noexcept {
  constexpr int kSmallestExponent = -6;
  constexpr int kMantissaBits = 3;
  if (std::isnan(value)) {
    return 0x7F;
  }
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0x00;
  const double magnitude = std::min(std::fabs(value), kLargest);
  if (magnitude == 0) {
    return sign;
  }
  int exponent = std::max(std::ilogb(magnitude), kSmallestExponent);
  // In steps of the binade; nearbyint rounds ties to even.
  auto steps =
      static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent)));
  if (steps == 16) {  // Rounded up into the next binade.
    steps = 8;
    ++exponent;
  }
  const bool subnormal = steps < 8;
  const unsigned biased = subnormal ? 0 : static_cast<unsigned>(exponent - kSmallestExponent + 1);
  return static_cast<std::uint8_t>(sign | (biased << kMantissaBits) | (steps % 8));
}

float e4m3_to_float(std::uint8_t bits) noexcept {
  const int exponent = bits >> 3 & 0xF;
  const int mantissa = bits & 7;
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                  : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  if ((bits & 0x7F) == 0x7F) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  }
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

std::uint8_t mxfp8_scale(float max_magnitude) noexcept {
  const float n = max_magnitude * (1.0F / kLargest);
  if (n <= 0) {
    return 0;
  }
  const auto bits = std::bit_cast<std::uint32_t>(n);
  const std::uint32_t exponent = bits >> 23 & 0xFF;
  const std::uint32_t mantissa = bits & 0x7FFFFF;
  const bool up = exponent == 0 ? mantissa > 0x400000 : mantissa != 0;
  return static_cast<std::uint8_t>(std::min(exponent + (up ? 1 : 0), 254U));
}

float mxfp8_multiplier(std::uint8_t scale) noexcept {
  return scale == 0 || scale == 254 ? 0.0F : std::ldexp(1.0F, 127 - scale);
}

std::size_t mxfp8_scale_bytes(std::int64_t m, std::int64_t k) noexcept {
  return static_cast<std::size_t>(round_up(m, 128) * round_up(k / kGroup, 4));
}

std::size_t mxfp8_scale_index(std::int64_t row, std::int64_t group, std::int64_t k) noexcept {
  const std::int64_t groups = round_up(k / kGroup, 4);
  return static_cast<std::size_t>(row / 128 * (groups * 128) + group / 4 * 512 +
                                  (row % 32 * 4 + row / 32 % 4) * 4 + group % 4);
}

Mxfp8 mxfp8_quantize(const Bf16* x, std::int64_t x_row_stride, std::int64_t m, std::int64_t k) {
  Mxfp8 out;
  out.q.resize(static_cast<std::size_t>(m * k));
  out.sf.resize(mxfp8_scale_bytes(m, k));
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t group = 0; group < k / kGroup; ++group) {
      const Bf16* first = x + row * x_row_stride + group * kGroup;
      float max_magnitude = std::numeric_limits<float>::quiet_NaN();
      for (std::int64_t i = 0; i < kGroup; ++i) {
        max_magnitude = larger(max_magnitude, std::fabs(to_float(first[i])));
      }
      const std::uint8_t scale = mxfp8_scale(max_magnitude);
      out.sf[mxfp8_scale_index(row, group, k)] = scale;
      for (std::int64_t i = 0; i < kGroup; ++i) {
        const float product = to_float(first[i]) * mxfp8_multiplier(scale);
        const float bounded = std::fmax(std::fmin(product, kLargest), -kLargest);
        out.q[static_cast<std::size_t>(row * k + group * kGroup + i)] = to_e4m3(bounded);
      }
    }
  }
  return out;
}

}  // namespace kiln::reference
