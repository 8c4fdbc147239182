#include "reference/wo_a.hpp"

#include <cstddef>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

#include "reference/gemm.hpp"
#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

std::vector<Bf16> random_values(std::int64_t count, float magnitude, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<Bf16> out(static_cast<std::size_t>(count));
  for (Bf16& value : out) {
    value = to_bf16(normal(generator) * magnitude);
  }
  return out;
}

TEST_CASE("Each output is the product of its own group and row, within the contract's bound") {
  for (const std::int64_t d : {512, 1536, 4096}) {
    const WoAShape shape = {3, 2, 5, d};
    const std::int64_t stride = shape.g * d + 8;
    const std::vector<Bf16> x = random_values(shape.m * stride, 1.0F, 1);
    const std::vector<Bf16> w = random_values(shape.g * shape.r * d, 1.0F, 2);
    const std::vector<Bf16> batch = wo_a_small_batch(x.data(), stride, w.data(), shape);
    const std::vector<Bf16> one = wo_a_gemv(x.data(), w.data(), {1, 2, 5, d});
    REQUIRE(batch.size() == 30);
    REQUIRE(one.size() == 10);
    for (std::int64_t token = 0; token < 3; ++token) {
      for (std::int64_t output = 0; output < 10; ++output) {
        const ExactDot exact =
            exact_dot(x.data() + token * stride + output / 5 * d, w.data() + output * d, d);
        CAPTURE(d, token, output);
        CHECK(within_bound(batch[static_cast<std::size_t>(token * 10 + output)], exact));
        CHECK((token > 0 || within_bound(one[static_cast<std::size_t>(output)], exact)));
      }
    }
  }
}

// One token of ones and one output, whose weights are zeros but for these.
float output_of(std::int64_t d, std::initializer_list<std::pair<std::size_t, float>> weights) {
  std::vector<Bf16> w(static_cast<std::size_t>(d), 0);
  for (const auto& [place, value] : weights) {
    w[place] = to_bf16(value);
  }
  const std::vector<Bf16> x(static_cast<std::size_t>(d), to_bf16(1));
  return to_float(wo_a_small_batch(x.data(), d, w.data(), {1, 1, 1, d})[0]);
}

TEST_CASE(
    "A batch's d is cut into 2 parts, their slices dealt to 8 warps, and their steps into 16") {
  constexpr float kLarge = 0x1p30F;  // Swallows a 1 that it is added to.
  CHECK(output_of(512, {{0, kLarge}, {1, 1}, {512 - 1, -kLarge}}) == 0);
  // Elements 0, 1, 4 and 5 of every 8 of a step of 32 are one sum, the others another.
  CHECK(output_of(512, {{0, kLarge}, {29, -kLarge}, {2, 1}}) == 1);
  CHECK(output_of(512, {{0, kLarge}, {30, -kLarge}, {32, 1}}) == 1);
  CHECK(output_of(512, {{0, kLarge}, {30, -kLarge}, {5, 1}}) == 0);
  CHECK(output_of(512, {{0, kLarge}, {34, -kLarge}, {32, 1}}) == 0);  // The next step comes later.
  // Of a part of 2048, warp 0 has [0, 128) and [1024, 1152), warp 4 [512, 640).
  CHECK(output_of(4096, {{0, kLarge}, {1024, -kLarge}, {128, 1}}) == 1);
  CHECK(output_of(4096, {{0, kLarge}, {512, -kLarge}, {128, 1}}) == 0);
  CHECK(output_of(4096, {{0, kLarge}, {1024, 1}, {1152, -kLarge}}) == 0);
  CHECK(output_of(4096, {{0, kLarge}, {1024, 1}, {512, -kLarge}}) == 0);
  CHECK(output_of(4096, {{0, kLarge}, {2047, -kLarge}, {2048, 1}}) == 1);
  CHECK(output_of(4096, {{0, kLarge}, {2048, -kLarge}, {2000, 1}}) == 0);
}

TEST_CASE("Lanes of one token keep 8 elements of every step") {
  // In one lane, 2^30 goes before 1 comes; in two, 1 and 2^30 meet only in the sum of lanes.
  std::vector<Bf16> w(512, 0);
  w[0] = to_bf16(0x1p30F);
  w[7] = to_bf16(-0x1p30F);
  w[256] = to_bf16(1);
  const std::vector<Bf16> x(512, to_bf16(1));
  CHECK(to_float(wo_a_gemv(x.data(), w.data(), {1, 1, 1, 512})[0]) == 1);
  w[7] = 0;
  w[8] = to_bf16(-0x1p30F);  // Lane 1; lane 0 has lost the 1 by then.
  CHECK(to_float(wo_a_gemv(x.data(), w.data(), {1, 1, 1, 512})[0]) == 0);
}

}  // namespace
}  // namespace kiln::reference
