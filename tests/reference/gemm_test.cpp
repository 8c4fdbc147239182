#include "reference/gemm.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

struct Gemm {
  std::string name;
  std::int64_t n, k;
  int threads;
  void (*run)(const Bf16*, std::int64_t, const Bf16*, Bf16*, std::int64_t, int);
};

const std::array<Gemm, 2> kGemms = {Gemm{"n128k512", 128, 512, 32, n128k512_gemm_bf16},
                                    Gemm{"n32k5120", 32, 5120, 320, n32k5120_gemm_bf16}};

using Values = std::vector<Bf16>;

Values zeros(std::int64_t count) {
  return Values(static_cast<std::size_t>(count));
}

Values random_values(std::int64_t count, float magnitude, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Values values(static_cast<std::size_t>(count));
  for (Bf16& value : values) {
    value = to_bf16(normal(generator) * magnitude);
  }
  return values;
}

// Runs one row; w is given for the first column and zero elsewhere.
Bf16 first_output(const Gemm& gemm, const Values& x, const Values& w_row, int v) {
  Values w = zeros(gemm.n * gemm.k);
  std::copy(w_row.begin(), w_row.end(), w.begin());
  Values out(static_cast<std::size_t>(gemm.n));
  gemm.run(x.data(), gemm.k, w.data(), out.data(), 1, v);
  return out[0];
}

// The contract's order once more, written the other way round: element by element to the thread
// that owns it, and the tree as one formula over lanes.
float by_ownership(const Gemm& gemm, const Bf16* x, const Bf16* w, int v) {
  std::vector<float> sums(static_cast<std::size_t>(gemm.threads), 0.0F);
  for (std::int64_t i = 0; i < gemm.k; ++i) {
    float& sum = sums[static_cast<std::size_t>(i / v % gemm.threads)];
    sum = std::fma(to_float(x[i]), to_float(w[i]), sum);
  }
  float total = 0;
  for (std::size_t warp = 0; warp < sums.size() / 32; ++warp) {
    float* lanes = sums.data() + warp * 32;
    for (std::size_t half = 16; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; ++lane) {
        lanes[lane] += lanes[lane + half];
      }
    }
    total = warp == 0 ? lanes[0] : total + lanes[0];
  }
  return total;
}

TEST_CASE("Small integers are summed exactly, each output from its own row and column") {
  for (const Gemm& gemm : kGemms) {
    for (const int v : {8, 16}) {
      CAPTURE(gemm.name, v);
      constexpr std::int64_t kRows = 3;
      Values x = zeros(kRows * gemm.k);
      Values w = zeros(gemm.n * gemm.k);
      for (std::int64_t row = 0; row < kRows; ++row) {
        x[static_cast<std::size_t>(row * gemm.k + row)] = to_bf16(static_cast<float>(row + 1));
      }
      for (std::int64_t column = 0; column < gemm.n; ++column) {
        for (std::int64_t i = 0; i < kRows; ++i) {
          w[static_cast<std::size_t>(column * gemm.k + i)] =
              to_bf16(static_cast<float>(column % 32 + i));
        }
      }
      Values out = zeros(kRows * gemm.n);
      gemm.run(x.data(), gemm.k, w.data(), out.data(), kRows, v);
      int wrong = 0;
      for (std::int64_t row = 0; row < kRows; ++row) {
        for (std::int64_t column = 0; column < gemm.n; ++column) {
          const auto expected = static_cast<float>((row + 1) * (column % 32 + row));
          wrong += to_float(out[static_cast<std::size_t>(row * gemm.n + column)]) != expected;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("Every element of K counts exactly once") {
  for (const Gemm& gemm : kGemms) {
    for (const int v : {8, 16}) {
      CAPTURE(gemm.name, v);
      const Values x(static_cast<std::size_t>(gemm.k), to_bf16(3.0F));
      Values out = zeros(gemm.n);
      int wrong = 0;
      for (std::int64_t first = 0; first < gemm.k; first += gemm.n) {
        Values w = zeros(gemm.n * gemm.k);  // Column c picks element first + c.
        for (std::int64_t column = 0; column < gemm.n; ++column) {
          w[static_cast<std::size_t>(column * gemm.k + first + column)] = to_bf16(1.0F);
        }
        gemm.run(x.data(), gemm.k, w.data(), out.data(), 1, v);
        for (const Bf16 value : out) {
          wrong += to_float(value) != 3.0F;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

// 2^24 + 1 is lost in fp32, so where a large value meets a small one tells the order.
TEST_CASE("Within one thread, products are added in element order") {
  const float big = std::ldexp(1.0F, 24);
  for (const Gemm& gemm : kGemms) {
    for (const int v : {8, 16}) {
      CAPTURE(gemm.name, v);
      const Values w(static_cast<std::size_t>(gemm.k), to_bf16(1.0F));
      Values x = zeros(gemm.k);
      x[0] = to_bf16(big);
      x[1] = to_bf16(1.0F);
      x[2] = to_bf16(-big);
      CHECK(to_float(first_output(gemm, x, w, v)) == 0.0F);  // ((big + 1) - big): the 1 is lost.
      std::swap(x[1], x[2]);
      CHECK(to_float(first_output(gemm, x, w, v)) == 1.0F);  // ((big - big) + 1).
    }
  }
}

TEST_CASE("V decides which elements share a thread") {
  const float big = std::ldexp(1.0F, 24);
  for (const Gemm& gemm : kGemms) {
    CAPTURE(gemm.name);
    const Values w(static_cast<std::size_t>(gemm.k), to_bf16(1.0F));
    Values x = zeros(gemm.k);
    x[0] = to_bf16(big);
    x[8] = to_bf16(1.0F);  // The same thread as element 0 for V = 16, the next one for V = 8.
    x[9] = to_bf16(1.0F);
    x[16] = to_bf16(-big);
    // V = 16: thread 0 has big + 1 + 1, each 1 lost, and thread 1 has -big.
    CHECK(to_float(first_output(gemm, x, w, 16)) == 0.0F);
    // V = 8: thread 0 has big, thread 1 has 2, thread 2 has -big; mask 2 adds 0 and 2 before 1.
    CHECK(to_float(first_output(gemm, x, w, 8)) == 2.0F);
  }
}

TEST_CASE("A warp adds lanes that are 16 apart first") {
  const float big = std::ldexp(1.0F, 24);
  for (const Gemm& gemm : kGemms) {
    for (const int v : {8, 16}) {
      CAPTURE(gemm.name, v);
      const Values w(static_cast<std::size_t>(gemm.k), to_bf16(1.0F));
      const auto at_lane = [&](std::size_t lane) { return lane * static_cast<std::size_t>(v); };
      Values x = zeros(gemm.k);
      x[at_lane(0)] = to_bf16(big);
      x[at_lane(16)] = to_bf16(-big);
      x[at_lane(1)] = to_bf16(1.0F);
      CHECK(to_float(first_output(gemm, x, w, v)) == 1.0F);
      std::swap(x[at_lane(16)], x[at_lane(1)]);  // 0 and 16 meet first now: big + 1, the 1 is lost.
      CHECK(to_float(first_output(gemm, x, w, v)) == 0.0F);
    }
  }
}

TEST_CASE("The ten warp sums of N32K5120 are added one after the other") {
  const Gemm& gemm = kGemms[1];
  const float big = std::ldexp(1.0F, 24);
  for (const int v : {8, 16}) {
    CAPTURE(v);
    const Values w(static_cast<std::size_t>(gemm.k), to_bf16(1.0F));
    const auto at_warp = [&](std::size_t warp) { return warp * 32 * static_cast<std::size_t>(v); };
    Values x = zeros(gemm.k);
    x[at_warp(0)] = to_bf16(big);
    x[at_warp(1)] = to_bf16(1.0F);
    x[at_warp(2)] = to_bf16(-big);
    CHECK(to_float(first_output(gemm, x, w, v)) == 0.0F);
    std::swap(x[at_warp(1)], x[at_warp(9)]);  // Last instead of second.
    CHECK(to_float(first_output(gemm, x, w, v)) == 1.0F);
  }
}

TEST_CASE("The order of summation is the contract's on random data, bit for bit") {
  for (const Gemm& gemm : kGemms) {
    for (const int v : {8, 16}) {
      for (const float magnitude : {1e-37F, 1.0F, 1e10F}) {
        CAPTURE(gemm.name, v, magnitude);
        const Values x = random_values(gemm.k, magnitude, 1);
        const Values w = random_values(gemm.n * gemm.k, 1.0F, 2);
        Values out = zeros(gemm.n);
        gemm.run(x.data(), gemm.k, w.data(), out.data(), 1, v);
        int wrong = 0;
        for (std::int64_t column = 0; column < gemm.n; ++column) {
          const float sum = by_ownership(gemm, x.data(), w.data() + column * gemm.k, v);
          wrong += out[static_cast<std::size_t>(column)] != to_bf16(sum);
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("Every output is within the contract's bound of an fp64 dot product") {
  for (const Gemm& gemm : kGemms) {
    for (const int v : {8, 16}) {
      for (const float magnitude : {1e-37F, 4e-36F, 1e-7F, 1e-3F, 1.0F, 448.0F, 1e3F, 1e10F}) {
        CAPTURE(gemm.name, v, magnitude);
        constexpr std::int64_t kRows = 3;
        const Values x = random_values(kRows * gemm.k, magnitude, 3);
        const Values w = random_values(gemm.n * gemm.k, 1.0F, 4);
        Values out = zeros(kRows * gemm.n);
        gemm.run(x.data(), gemm.k, w.data(), out.data(), kRows, v);
        int wrong = 0;
        for (std::int64_t i = 0; i < kRows * gemm.n; ++i) {
          const ExactDot exact =
              exact_dot(x.data() + i / gemm.n * gemm.k, w.data() + i % gemm.n * gemm.k, gemm.k);
          wrong += !within_bound(out[static_cast<std::size_t>(i)], exact);
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("The bound tells a result that is two bf16 steps off from one that is not") {
  const ExactDot exact{1.0, 1.0};
  CHECK(within_bound(0x3f80, exact));
  CHECK(within_bound(0x3f81, exact));                       // One step above.
  CHECK_FALSE(within_bound(0x3f82, exact));                 // Two.
  CHECK(within_bound(0x3f82, {1.0, std::ldexp(1.0, 14)}));  // Forgiven by 2^-20 * sum|x*w|.
  CHECK_FALSE(within_bound(0xbf80, exact));
  CHECK_FALSE(within_bound(0x7fc0, exact));
}

TEST_CASE("The bound handles NaN and infinity") {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(within_bound(0x7fc0, {nan, nan}));
  CHECK_FALSE(within_bound(0x3f80, {nan, nan}));
  CHECK(within_bound(0x7f80, {infinity, infinity}));
  CHECK_FALSE(within_bound(0xff80, {infinity, infinity}));
  CHECK_FALSE(within_bound(0x7f7f, {infinity, infinity}));
  CHECK(within_bound(0x7f80, {1e39, 1e39}));  // Beyond the range of bf16.
  CHECK_FALSE(within_bound(0xff80, {1e39, 1e39}));
  CHECK_FALSE(within_bound(0x7f80, {1e30, 1e30}));
}

TEST_CASE("NaN and infinity spread to their own row's outputs and to no other") {
  for (const Gemm& gemm : kGemms) {
    for (const int v : {8, 16}) {
      CAPTURE(gemm.name, v);
      Values x = random_values(3 * gemm.k, 1.0F, 5);
      Values w(static_cast<std::size_t>(gemm.n * gemm.k), to_bf16(1.0F));
      w[static_cast<std::size_t>(gemm.k + 7)] = 0;       // Column 1 multiplies element 7 by zero.
      x[7] = 0x7fc0;                                     // Row 0: NaN.
      x[static_cast<std::size_t>(gemm.k + 7)] = 0x7f80;  // Row 1: infinity.
      Values out = zeros(3 * gemm.n);
      gemm.run(x.data(), gemm.k, w.data(), out.data(), 3, v);
      const auto at = [&](std::int64_t row, std::int64_t column) {
        return to_float(out[static_cast<std::size_t>(row * gemm.n + column)]);
      };
      CHECK(std::isnan(at(0, 0)));
      CHECK(std::isnan(at(0, 1)));
      CHECK(at(1, 0) == std::numeric_limits<float>::infinity());
      CHECK(std::isnan(at(1, 1)));  // Infinity times zero.
      CHECK(std::isfinite(at(2, 0)));
      CHECK(std::isfinite(at(2, 1)));
    }
  }
}

TEST_CASE("A row's bits depend neither on its batch nor on the stride of x") {
  for (const Gemm& gemm : kGemms) {
    CAPTURE(gemm.name);
    constexpr std::int64_t kRows = 4;
    const std::int64_t stride = gemm.k + 16;
    const Values x = random_values(kRows * stride, 1.0F, 6);
    const Values w = random_values(gemm.n * gemm.k, 1.0F, 7);
    Values together = zeros(kRows * gemm.n);
    gemm.run(x.data(), stride, w.data(), together.data(), kRows, 8);
    Values alone = zeros(kRows * gemm.n);
    for (std::int64_t row = 0; row < kRows; ++row) {
      const Values copy(x.begin() + row * stride, x.begin() + row * stride + gemm.k);
      gemm.run(copy.data(), gemm.k, w.data(), alone.data() + row * gemm.n, 1, 8);
    }
    CHECK(together == alone);
  }
}

TEST_CASE("No row writes nothing") {
  for (const Gemm& gemm : kGemms) {
    Bf16 canary = 0x1234;
    gemm.run(nullptr, gemm.k, nullptr, &canary, 0, 8);
    CHECK(canary == 0x1234);
  }
}

TEST_CASE("V follows the compute capability") {
  CHECK(vector_elements(90) == 8);
  CHECK(vector_elements(100) == 16);
  CHECK(vector_elements(103) == 16);
  CHECK(vector_elements(120) == 16);
}

}  // namespace
}  // namespace kiln::reference
