#include "reference/mxfp8.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST_CASE("e4m3 has the values of the OCP format") {
  CHECK(e4m3_to_float(0x00) == 0.0F);
  CHECK(e4m3_to_float(0x01) == std::ldexp(1.0F, -9));
  CHECK(e4m3_to_float(0x07) == std::ldexp(7.0F, -9));
  CHECK(e4m3_to_float(0x08) == std::ldexp(1.0F, -6));
  CHECK(e4m3_to_float(0x38) == 1.0F);
  CHECK(e4m3_to_float(0x7E) == 448.0F);
  CHECK(e4m3_to_float(0xB9) == -1.125F);
  CHECK(std::isnan(e4m3_to_float(0x7F)));
  CHECK(std::isnan(e4m3_to_float(0xFF)));
}

// By search: the nearest of all values, the one with the even code where two are as near.
std::uint8_t nearest_e4m3(float value) {
  std::uint8_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code < 0x7F; ++code) {
    const double off =
        std::fabs(std::fabs(static_cast<double>(value)) -
                  static_cast<double>(e4m3_to_float(static_cast<std::uint8_t>(code))));
    if (off < distance || (off == distance && code % 2 == 0)) {
      distance = off;
      best = static_cast<std::uint8_t>(code);
    }
  }
  return static_cast<std::uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

TEST_CASE("Conversion to e4m3 gives every value itself and rounds to the nearest, ties to even") {
  int wrong = 0;
  for (int code = 0; code < 256; ++code) {
    const auto bits = static_cast<std::uint8_t>(code);
    if ((bits & 0x7F) != 0x7F) {
      wrong += to_e4m3(e4m3_to_float(bits)) != bits;
    }
  }
  for (int code = 0; code < 0x7E; ++code) {  // Halfway to the next, and just beside it.
    const float low = e4m3_to_float(static_cast<std::uint8_t>(code));
    const float half = (low + e4m3_to_float(static_cast<std::uint8_t>(code + 1))) / 2;
    for (const float value : {half, std::nextafter(half, 0.0F), std::nextafter(half, 1e9F)}) {
      wrong += to_e4m3(value) != nearest_e4m3(value);
      wrong += to_e4m3(-value) != nearest_e4m3(-value);
    }
  }
  std::mt19937 generator(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto value =
        std::bit_cast<float>((static_cast<std::uint32_t>(generator()) & 0x8FFFFFFFU) | 0x38000000U);
    wrong += to_e4m3(value) != nearest_e4m3(value);
  }
  CHECK(wrong == 0);
  CHECK(to_e4m3(1e30F) == 0x7E);
  CHECK(to_e4m3(-kInfinity) == 0xFE);
  CHECK(to_e4m3(kNan) == 0x7F);
  CHECK(to_e4m3(-0.0F) == 0x80);
}

TEST_CASE("A scale is the power of two above max / 448, or equal to it") {
  CHECK(mxfp8_scale(0.0F) == 0);
  CHECK(mxfp8_scale(448.0F) == 127);
  CHECK(mxfp8_scale(std::nextafter(448.0F, 1e9F)) == 128);
  CHECK(mxfp8_scale(449.0F) == 128);
  CHECK(mxfp8_scale(896.0F) == 128);
  CHECK(mxfp8_scale(1.0F) == 119);  // 1/448 lies between 2^-9 and 2^-8.
  CHECK(mxfp8_scale(kInfinity) == 254);
  CHECK(mxfp8_scale(kNan) == 254);
  CHECK(mxfp8_scale(std::numeric_limits<float>::max()) == 247);
}

TEST_CASE("A subnormal max / 448 gives scale 1 only above half of the smallest normal number") {
  const float half = std::bit_cast<float>(0x00400000U);
  CHECK(mxfp8_scale(448 * half) == 0);
  CHECK(mxfp8_scale(448 * std::nextafter(half, 1.0F)) == 1);
  CHECK(mxfp8_scale(448 * std::numeric_limits<float>::min()) == 1);
  CHECK(mxfp8_scale(std::bit_cast<float>(1U)) == 0);
}

TEST_CASE("The multiplier is the scale's reciprocal, and 0 at both ends") {
  CHECK(mxfp8_multiplier(0) == 0.0F);
  CHECK(mxfp8_multiplier(254) == 0.0F);
  CHECK(mxfp8_multiplier(127) == 1.0F);
  CHECK(mxfp8_multiplier(1) == std::ldexp(1.0F, 126));
  CHECK(mxfp8_multiplier(253) == std::bit_cast<float>(1U << 23));
}

TEST_CASE("Every row and group has a scale byte of its own, and padding is what is left") {
  for (const auto& [m, k] : {std::pair{1, 32}, {3, 5120}, {128, 128}, {129, 1312}, {257, 4096}}) {
    CAPTURE(m, k);
    std::set<std::size_t> seen;
    for (int row = 0; row < m; ++row) {
      for (int group = 0; group < k / 32; ++group) {
        seen.insert(mxfp8_scale_index(row, group, k));
      }
    }
    CHECK(seen.size() == static_cast<std::size_t>(m * (k / 32)));
    CHECK(*seen.rbegin() < mxfp8_scale_bytes(m, k));
    CHECK(mxfp8_scale_bytes(m, k) % 512 == 0);
  }
  CHECK(mxfp8_scale_bytes(8, 5120) == 128 * 160);
  CHECK(mxfp8_scale_bytes(129, 1312) == 256 * 44);
  CHECK(mxfp8_scale_index(0, 5, 5120) == 512 + 1);
  CHECK(mxfp8_scale_index(33, 0, 5120) == 16 + 4);
  CHECK(mxfp8_scale_index(128, 0, 5120) == 128 * 160);
}

std::vector<Bf16> random_rows(std::int64_t count, float magnitude) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<Bf16> values(static_cast<std::size_t>(count));
  for (Bf16& value : values) {
    value = to_bf16(normal(generator) * magnitude);
  }
  return values;
}

TEST_CASE("What is quantised is within half a step of e4m3 of what it was") {
  for (const float magnitude : {1e-7F, 1e-3F, 1.0F, 448.0F, 1e10F}) {
    CAPTURE(magnitude);
    constexpr std::int64_t kRows = 5;
    constexpr std::int64_t kWidth = 96;
    const std::vector<Bf16> x = random_rows(kRows * kWidth, magnitude);
    const Mxfp8 out = mxfp8_quantize(x.data(), kWidth, kRows, kWidth);
    int wrong = 0;
    for (std::int64_t i = 0; i < kRows * kWidth; ++i) {
      const std::uint8_t scale = out.sf[mxfp8_scale_index(i / kWidth, i % kWidth / 32, kWidth)];
      const double step = std::ldexp(1.0, scale - 127);
      const double value = static_cast<double>(to_float(x[static_cast<std::size_t>(i)]));
      const double got =
          static_cast<double>(e4m3_to_float(out.q[static_cast<std::size_t>(i)])) * step;
      wrong += std::fabs(got - value) > std::max(std::fabs(value) / 16, step * 0x1p-10);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("NaN, infinity and zero groups are quantised as the contract says") {
  std::vector<Bf16> x(5 * 32, to_bf16(1.0F));
  x[3] = 0x7FC0;  // Group 0: NaN among ones, one of them signaling.
  x[9] = 0xFF81;
  std::fill_n(x.begin() + 32, 32, Bf16{0x7FC0});   // Group 1: only NaN.
  x[2 * 32] = 0x7F80;                              // Group 2: infinity among ones.
  x[3 * 32] = 0xFF80;                              // Group 3: minus infinity.
  std::fill_n(x.begin() + 128, 32, Bf16{0x8000});  // Group 4: minus zero.
  x[0] = to_bf16(1.5F);                            // The largest of group 0 comes before its NaN.
  const Mxfp8 out = mxfp8_quantize(x.data(), 160, 1, 160);
  const auto scale = [&](std::int64_t group) { return out.sf[mxfp8_scale_index(0, group, 160)]; };
  CHECK(scale(0) == mxfp8_scale(1.5F));
  CHECK(out.q[3] == 0x7E);
  CHECK(out.q[9] == 0x7E);
  CHECK(out.q[4] == to_e4m3(256.0F));
  CHECK(scale(1) == 254);
  CHECK(std::count(out.q.begin() + 32, out.q.begin() + 64, 0x7E) == 32);
  CHECK(scale(2) == 254);
  CHECK(out.q[64] == 0x7E);  // Infinity times zero.
  CHECK(out.q[65] == 0x00);
  CHECK(scale(3) == 254);
  CHECK(out.q[96] == 0x7E);
  CHECK(scale(4) == 0);
  CHECK(std::count(out.q.begin() + 128, out.q.end(), 0x80) == 32);
  for (std::size_t group = 5; group < 8; ++group) {  // These do not exist.
    CHECK(out.sf[512 + group % 4] == 0);
  }
}

}  // namespace
}  // namespace kiln::reference
