#include "reference/tensor_core.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

using Factors = std::array<Bf16, kTensorProducts>;

Factors all(float value) {
  Factors out{};
  out.fill(to_bf16(value));
  return out;
}

// 1 * each of the values; zeros behind them.
float sum_of(std::initializer_list<float> values) {
  Factors out{};
  std::size_t i = 0;
  for (const float value : values) {
    out[i++] = to_bf16(value);
  }
  return tensor_core_sum(out, all(1));
}

TEST_CASE("What fits is added up exactly, in whatever order") {
  CHECK(tensor_core_sum(all(3), all(-5)) == -240);
  CHECK(sum_of({0x1p30F, 1, -0x1p30F}) == 0);  // 1 lies more than 25 bits below.
  CHECK(sum_of({0x1p20F, 1, -0x1p20F}) == 1);
  CHECK(sum_of({-0x1p20F, 0x1p20F, 1}) == 1);
}

TEST_CASE("25 bits below the largest exponent are kept of each product, the rest is cut off") {
  CHECK(sum_of({1, -1, 0x1p-25F}) == 0x1p-25F);
  CHECK(sum_of({1, -1, 0x1p-26F}) == 0);
  CHECK(sum_of({1, -1, 0x1.8p-25F}) == 0x1p-25F);
  CHECK(sum_of({1, -1, -0x1.8p-25F}) == -0x1p-25F);
}

TEST_CASE("The exponent of a product is the sum of its factors', whatever the product is") {
  // 1.5 * 1.5 = 2.25 counts as a product of exponent 0: 2^-25 is still kept.
  Factors a{};
  Factors b{};
  a[0] = b[0] = to_bf16(1.5F);
  a[1] = to_bf16(-2.25F);
  b[1] = to_bf16(1);  // Exponent 1: only 2^-24 is.
  a[2] = to_bf16(0x1p-25F);
  b[2] = to_bf16(1);
  CHECK(tensor_core_sum(a, b) == 0);
  a[1] = to_bf16(-1.5F);
  b[1] = to_bf16(1.5F);
  CHECK(tensor_core_sum(a, b) == 0x1p-25F);
}

TEST_CASE("The sum is cut to fp32, toward zero") {
  CHECK(sum_of({1, 0x1.8p-24F}) == 1);
  CHECK(sum_of({-1, -0x1.8p-24F}) == -1);
  CHECK(sum_of({1, 0x1p-23F}) == 1 + 0x1p-23F);
}

TEST_CASE("Subnormal factors and sums are no zeros; a sum that is cut to zero is +0") {
  CHECK(sum_of({0x1p-133F, 0x1p-133F}) == 0x1p-132F);
  Factors a = all(0);
  a[0] = to_bf16(-0x1p-100F);
  Factors b = all(0x1p-49F);
  CHECK(tensor_core_sum(a, b) == -0x1p-149F);
  b[0] = to_bf16(0x1p-50F);
  CHECK(std::bit_cast<std::uint32_t>(tensor_core_sum(a, b)) == 0);
}

TEST_CASE("Infinities and NaN come out, and a sum of 2^128 is an infinity") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(sum_of({inf, -1}) == inf);
  CHECK(sum_of({-inf, 1}) == -inf);
  CHECK(std::isnan(sum_of({inf, -inf})));
  CHECK(std::isnan(sum_of({nan, 1})));
  CHECK(std::isnan(tensor_core_sum(all(inf), all(0))));
  CHECK(tensor_core_sum(all(0x1p63F), all(0x1p61F)) == inf);
  CHECK(tensor_core_sum(all(-0x1p63F), all(0x1p61F)) == -inf);
  CHECK(tensor_core_sum(all(0x1p63F), all(0x1.Fp60F)) == 0x1.Fp127F);
}

TEST_CASE("A sum is off by at most 2^-20 of the sum of magnitudes") {
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 10'000; ++i) {
    Factors a{};
    Factors b{};
    double exact = 0;
    double magnitudes = 0;
    for (std::size_t k = 0; k < kTensorProducts; ++k) {
      a[k] = to_bf16(std::ldexp(normal(generator), static_cast<int>(generator() % 16)));
      b[k] = to_bf16(normal(generator));
      const double product =
          static_cast<double>(to_float(a[k])) * static_cast<double>(to_float(b[k]));
      exact += product;
      magnitudes += std::fabs(product);
    }
    const auto sum = static_cast<double>(tensor_core_sum(a, b));
    REQUIRE(std::fabs(sum - exact) <= std::ldexp(magnitudes, -20));
  }
}

}  // namespace
}  // namespace kiln::reference
