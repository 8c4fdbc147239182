#include "reference/norm.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

constexpr float kEps = 1e-6F;

std::vector<float> random_floats(std::int64_t count, float magnitude, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = normal(generator) * magnitude;
  }
  return values;
}

std::vector<Bf16> random_bf16s(std::int64_t count, float magnitude, unsigned seed) {
  return to_bf16s(random_floats(count, magnitude, seed));
}

// The contract's order once more, written the other way round: element by element to the thread
// that owns it, and the trees as halves of arrays.
float by_ownership(const std::vector<float>& x) {
  const std::size_t vectors = x.size() / 8;
  const std::size_t threads = (std::min<std::size_t>(1024, vectors) + 31) / 32 * 32;
  std::vector<float> sums(threads, 0.0F);
  for (std::size_t i = 0; i < x.size(); ++i) {
    float& sum = sums[i / 8 % threads];
    sum = std::fma(x[i], x[i], sum);
  }
  const auto tree = [](float* lanes) {
    for (std::size_t half = 16; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; ++lane) {
        lanes[lane] += lanes[lane + half];
      }
    }
    return lanes[0];
  };
  std::vector<float> warps(32, 0.0F);
  for (std::size_t warp = 0; warp < threads / 32; ++warp) {
    warps[warp] = tree(sums.data() + warp * 32);
  }
  return tree(warps.data());
}

constexpr std::int64_t kWidths[] = {8,    16,   24,   128,  256,  264,   1280,  5120,
                                    7168, 8184, 8192, 8200, 8448, 16384, 20480, 65536};

TEST_CASE("A row is summed in the contract's order at every width, bit for bit") {
  for (const std::int64_t k : kWidths) {
    for (const float magnitude : {1e-37F, 1.0F, 1e10F}) {
      CAPTURE(k, magnitude);
      const std::vector<float> x = random_floats(k, magnitude, 3);
      CHECK(row_sum(x.data(), x.data(), k) == by_ownership(x));
    }
  }
}

TEST_CASE("Every element of a row counts exactly once") {
  for (const std::int64_t k : kWidths) {
    CAPTURE(k);
    const std::vector<float> ones(static_cast<std::size_t>(k), 1.0F);
    CHECK(row_sum(ones.data(), ones.data(), k) == static_cast<float>(k));
  }
}

// 2^24 + 1 is lost in fp32, so where a large value meets a small one tells the order.
TEST_CASE("Warps that are 16 apart meet first, and a row above 8192 goes on in its threads") {
  const float big = 0x1p24F;
  const auto sum_with = [&](std::int64_t k, std::vector<std::pair<std::size_t, float>> values) {
    std::vector<float> a(static_cast<std::size_t>(k), 0.0F);
    const std::vector<float> ones(a.size(), 1.0F);
    for (const auto& [index, value] : values) {
      a[index] = value;
    }
    return row_sum(a.data(), ones.data(), k);
  };
  CHECK(sum_with(8192, {{0, big}, {16 * 256, -big}, {256, 1.0F}}) == 1.0F);
  CHECK(sum_with(8192, {{0, big}, {256, -big}, {16 * 256, 1.0F}}) == 0.0F);
  CHECK(sum_with(16384, {{0, big}, {8192, 1.0F}, {8193, -big}}) == 0.0F);  // One thread.
  CHECK(sum_with(16384, {{0, big}, {8192, -big}, {8193, 1.0F}}) == 1.0F);
}

TEST_CASE("A norm is within the rounding of its steps of the value in fp64") {
  for (const std::int64_t k : {8, 1280, 5120, 16384}) {
    for (const float magnitude : {1e-7F, 1e-3F, 1.0F, 1e10F}) {
      CAPTURE(k, magnitude);
      const std::vector<float> x = random_floats(2 * k, magnitude, 5);
      const std::vector<float> w = random_floats(k, 1.0F, 6);
      const std::vector<float> y = rms_norm(x, w, kEps, exact_rsqrt);
      int wrong = 0;
      for (std::size_t row = 0; row < 2; ++row) {
        double sum = 0;
        const std::size_t first = row * w.size();
        for (std::size_t i = 0; i < w.size(); ++i) {
          sum += static_cast<double>(x[first + i]) * static_cast<double>(x[first + i]);
        }
        const double inverse =
            1 / std::sqrt(sum / static_cast<double>(k) + static_cast<double>(kEps));
        for (std::size_t i = 0; i < w.size(); ++i) {
          const double exact =
              static_cast<double>(x[first + i]) * inverse * static_cast<double>(w[i]);
          wrong += std::fabs(static_cast<double>(y[first + i]) - exact) > std::fabs(exact) * 1e-5;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("The two products of a norm are rounded one after the other") {
  const std::vector<float> x(8, 0x1.000002p0F);
  const std::vector<float> w(8, 0x1.000002p0F);
  const auto third = [](const std::vector<float>& values) {
    return std::vector<float>(values.size(), 1.0F / 3);
  };
  const float once = 0x1.000002p0F * (1.0F / 3);
  CHECK(rms_norm(x, w, kEps, third)[0] == once * 0x1.000002p0F);
}

TEST_CASE("The argument of the square root is sum / k + eps") {
  const std::vector<float> x(8, 3.0F);
  std::vector<float> asked;
  const auto note = [&](const std::vector<float>& values) {
    asked = values;
    return values;
  };
  rms_norm(x, std::vector<float>(8, 1.0F), 0.5F, note);
  CHECK(asked == std::vector<float>{9.5F});
}

TEST_CASE("A normalised row's bits depend neither on its batch nor on the stride of x") {
  constexpr std::int64_t kRows = 4;
  constexpr std::int64_t kWidth = 1280;
  constexpr std::int64_t kStride = kWidth + 24;
  const std::vector<Bf16> x = random_bf16s(kRows * kStride, 1.0F, 8);
  const std::vector<Bf16> w = random_bf16s(kWidth, 1.0F, 9);
  const std::vector<Bf16> together =
      rmsnorm(x.data(), kStride, w.data(), kEps, kRows, kWidth, exact_rsqrt);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const std::vector<Bf16> alone =
        rmsnorm(x.data() + row * kStride, kWidth, w.data(), kEps, 1, kWidth, exact_rsqrt);
    CHECK(std::equal(alone.begin(), alone.end(), together.begin() + row * kWidth));
  }
}

TEST_CASE("Streams are combined in their order, rounded, and then normalised") {
  constexpr std::int64_t kWidth = 64;
  const std::vector<Bf16> x = random_bf16s(2 * 4 * kWidth, 1.0F, 10);
  const std::vector<Bf16> w = random_bf16s(kWidth, 1.0F, 11);
  const std::vector<float> pre = random_floats(8, 1.0F, 12);
  const std::vector<Bf16> v = hc_combine(x.data(), 4 * kWidth, pre.data(), 2, kWidth);
  int wrong = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    const std::size_t row = i / kWidth;
    const Bf16* first = x.data() + row * 4 * kWidth + i % kWidth;
    const float* p = pre.data() + row * 4;
    const float sum =
        std::fma(to_float(first[3 * kWidth]), p[3],
                 std::fma(to_float(first[2 * kWidth]), p[2],
                          std::fma(to_float(first[kWidth]), p[1], to_float(first[0]) * p[0])));
    wrong += v[i] != to_bf16(sum);
  }
  CHECK(wrong == 0);
  CHECK(hc_combine_norm(x.data(), 4 * kWidth, pre.data(), w.data(), kEps, 2, kWidth, exact_rsqrt) ==
        rmsnorm(v.data(), kWidth, w.data(), kEps, 2, kWidth, exact_rsqrt));
}

TEST_CASE("Each stream after a block takes its own weights, source stream first") {
  const Bf16 x = to_bf16(1000.0F);
  const std::vector<Bf16> residual(4 * 8, to_bf16(1.0F));
  const std::vector<float> post = {1, 2, 3, 4};
  std::vector<float> comb(16, 0.0F);
  comb[0 * 4 + 1] = 10;   // Stream 0 into stream 1.
  comb[3 * 4 + 2] = 100;  // Stream 3 into stream 2.
  const std::vector<Bf16> out = mhc_post_split_h(std::vector<Bf16>(8, x).data(), residual.data(),
                                                 post.data(), comb.data(), 1, 8);
  CHECK(to_float(out[0]) == 1000.0F);
  CHECK(out[8] == to_bf16(2010.0F));
  CHECK(out[16] == to_bf16(3100.0F));
  CHECK(out[24] == to_bf16(4000.0F));
}

TEST_CASE("After a block, the first product is rounded before the rest is added to it") {
  // comb * residual = (1 + 2^-7)^2 needs 15 bits, so take weights of fp32 that need more.
  const float weight = 0x1.000002p0F;
  const std::vector<Bf16> x(8, to_bf16(-1.0F));
  const std::vector<Bf16> residual(32, to_bf16(0x1.02p0F));
  const std::vector<float> post(4, weight * 0x1.02p0F);
  std::vector<float> comb(16, 0.0F);
  for (std::size_t c = 0; c < 4; ++c) {
    comb[c] = weight;
  }
  // Equal when the product was rounded; a fused sum would leave its rounding error.
  const std::vector<Bf16> out =
      mhc_post_split_h(x.data(), residual.data(), post.data(), comb.data(), 1, 8);
  CHECK(to_float(out[0]) == 0.0F);
}

TEST_CASE("The stand-in for the square root flushes subnormals as the instruction does") {
  const std::vector<float> got = exact_rsqrt({4.0F, 0x1p-130F, -0x1p-130F, 0.0F, -1.0F});
  CHECK(got[0] == 0.5F);
  CHECK(got[1] == std::numeric_limits<float>::infinity());
  CHECK(got[2] == -std::numeric_limits<float>::infinity());
  CHECK(got[3] == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(got[4]));
}

}  // namespace
}  // namespace kiln::reference
