#include "reference/bf16.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

constexpr std::uint32_t kPatterns = 1U << 16;
constexpr Bf16 kInfinity = 0x7f80;
constexpr Bf16 kSign = 0x8000;

float from_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// The nearest bf16 by search among neighbours in fp64, ties to the even pattern.
Bf16 nearest(double value, Bf16 below, Bf16 above) {
  const double to_below = std::fabs(value - static_cast<double>(to_float(below)));
  const double to_above = std::fabs(static_cast<double>(to_float(above)) - value);
  if (to_below == to_above) {
    return (below & 1U) == 0 ? below : above;
  }
  return to_below < to_above ? below : above;
}

TEST_CASE("Every bf16 pattern survives the way to float and back") {
  std::uint32_t wrong = 0;
  for (std::uint32_t bits = 0; bits < kPatterns; ++bits) {
    const auto value = static_cast<Bf16>(bits);
    const bool nan = (bits & 0x7fffU) > kInfinity;
    const Bf16 back = to_bf16(to_float(value));
    wrong += std::isnan(to_float(value)) != nan || !same(back, value) || (!nan && back != value);
  }
  CHECK(wrong == 0);
}

TEST_CASE("A float between two bf16 neighbours goes to the nearer one, a tie to the even one") {
  std::uint32_t wrong = 0;
  for (std::uint32_t bits = 0; bits < kInfinity - 1U;
       ++bits) {  // Up to the largest pair of finite ones.
    const auto below = static_cast<Bf16>(bits);
    const auto above = static_cast<Bf16>(bits + 1);
    for (const std::uint32_t low : {0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const float value = from_bits(bits << 16 | low);
      const Bf16 expected = nearest(static_cast<double>(value), below, above);
      wrong += to_bf16(value) != expected;
      wrong += to_bf16(-value) != (expected | kSign);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("Rounding past the largest finite bf16 gives infinity, from the tie on") {
  CHECK(to_bf16(from_bits(0x7f7f7fff)) == 0x7f7f);
  CHECK(to_bf16(from_bits(0x7f7f8000)) == kInfinity);  // The tie; 0x7f7f is odd.
  CHECK(to_bf16(std::numeric_limits<float>::max()) == kInfinity);
  CHECK(to_bf16(std::numeric_limits<float>::lowest()) == (kInfinity | kSign));
}

TEST_CASE("Infinities stay, and every NaN becomes a quiet NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(to_bf16(infinity) == kInfinity);
  CHECK(to_bf16(-infinity) == (kInfinity | kSign));
  // Payloads in the low half only would turn into infinity if they were just cut off or rounded.
  for (const std::uint32_t bits :
       {0x7f800001U, 0x7fffffffU, 0xff800001U, 0xffffffffU, 0x7fc00000U}) {
    CAPTURE(bits);
    const Bf16 result = to_bf16(from_bits(bits));
    CHECK(std::isnan(to_float(result)));
    CHECK((result & 0x0040U) != 0);
    CHECK((result & kSign) == (bits >> 31 << 15));
  }
}

TEST_CASE("Zeros keep their sign and subnormals are not flushed") {
  CHECK(to_bf16(0.0F) == 0);
  CHECK(to_bf16(-0.0F) == kSign);
  CHECK(to_bf16(from_bits(0x00010000)) == 1);
  CHECK(to_bf16(from_bits(0x00008000)) == 0);  // Half of the smallest subnormal: a tie with zero.
  CHECK(to_bf16(from_bits(0x00008001)) == 1);
}

TEST_CASE("Two NaNs are the same whatever their bits; zeros of different sign are not") {
  CHECK(same(0x7fc0, 0xffff));
  CHECK_FALSE(same(0x7fc0, kInfinity));
  CHECK_FALSE(same(0, kSign));
  CHECK(same(0x3f80, 0x3f80));
}

TEST_CASE("The bf16 step is that of the value's binade") {
  CHECK(bf16_ulp(1.0) == std::ldexp(1.0, -7));
  CHECK(bf16_ulp(-1.99) == std::ldexp(1.0, -7));
  CHECK(bf16_ulp(2.0) == std::ldexp(1.0, -6));
  CHECK(bf16_ulp(0.0) == std::ldexp(1.0, -133));
  CHECK(bf16_ulp(1e-50) == std::ldexp(1.0, -133));
  CHECK(bf16_ulp(1e300) == std::ldexp(1.0, 120));
  CHECK(bf16_ulp(std::numeric_limits<double>::infinity()) == std::ldexp(1.0, 120));
}

}  // namespace
}  // namespace kiln::reference
