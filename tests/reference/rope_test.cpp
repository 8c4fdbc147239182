#include "reference/rope.hpp"

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

constexpr std::size_t kHead = 512;

std::vector<Bf16> random_heads(std::size_t heads) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<Bf16> out(heads * kHead);
  for (Bf16& value : out) {
    value = to_bf16(normal(generator));
  }
  return out;
}

// A table in which every angle of row i is i quarter turns.
std::vector<float> quarter_turns(std::size_t rows) {
  const float cosines[] = {1, 0, -1, 0};
  std::vector<float> out;
  for (std::size_t row = 0; row < rows; ++row) {
    for (int i = 0; i < 32; ++i) {
      out.push_back(cosines[row % 4]);
      out.push_back(cosines[(row + 3) % 4]);
    }
  }
  return out;
}

TEST_CASE("A quarter turn takes an even element's place by its odd one, negated, and leaves 448") {
  const std::vector<Bf16> x = random_heads(4);
  const std::vector<float> freqs = quarter_turns(2);
  const std::vector<Bf16> y = rope(x, 2, {freqs.data(), 2}, {1, 0});
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool turned = i < 2 * kHead && i % kHead >= 448;
    const float want = !turned      ? to_float(x[i])
                       : i % 2 == 0 ? -to_float(x[i + 1])
                                    : to_float(x[i - 1]);
    CAPTURE(i);
    CHECK(to_float(y[i]) == want);
  }
}

TEST_CASE("A position outside the table takes the nearest row") {
  const std::vector<Bf16> x = random_heads(1);
  const std::vector<float> freqs = quarter_turns(3);
  const RopeTable table = {freqs.data(), 3};
  CHECK(rope(x, 1, table, {-5}) == rope(x, 1, table, {0}));
  CHECK(rope(x, 1, table, {3}) == rope(x, 1, table, {2}));
  CHECK(rope(x, 1, table, {std::int64_t{1} << 40}) == rope(x, 1, table, {2}));
  CHECK(rope(x, 1, table, {1}) != rope(x, 1, table, {2}));
}

TEST_CASE("The product with the odd element is rounded before the sum") {
  // even * cosine cancels odd * sine but for what the rounding of the latter left.
  std::vector<Bf16> x(kHead, 0);
  x[448] = to_bf16(1);
  x[449] = to_bf16(1.0078125F);  // 1 + 2^-7
  const float sine = 1.0F + 0x1p-23F;
  const float rounded = to_float(x[449]) * sine;
  std::vector<float> freqs(64, 0);
  freqs[0] = rounded;
  freqs[1] = sine;
  const std::vector<Bf16> y = rope(x, 1, {freqs.data(), 1}, {0});
  CHECK(to_float(y[448]) == 0);
  CHECK(std::fma(-to_float(x[449]), sine, rounded) != 0);
}

TEST_CASE("No rows give nothing") {
  const std::vector<float> freqs = quarter_turns(1);
  CHECK(rope({}, 3, {freqs.data(), 1}, {}).empty());
}

}  // namespace
}  // namespace kiln::reference
