#include "reference/engram_gate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "reference/bf16.hpp"
#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

std::vector<float> random_floats(std::int64_t count, float magnitude, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = normal(generator) * magnitude;
  }
  return values;
}

double ulp(float value) {
  return static_cast<double>(
      std::nextafter(std::fabs(value), std::numeric_limits<float>::infinity()) - std::fabs(value));
}

// The gate of one row in fp64, for a product `dot`.
double exact_gate(double dot, double clamp) {
  const double z = std::copysign(std::sqrt(std::max(std::fabs(dot), clamp)), dot);
  return 1 / (1 + std::exp(-z));
}

struct Inputs {
  Inputs(EngramGate gate, float magnitude, std::uint64_t seed)
      : shape(gate),
        x(random_floats(gate.t * gate.hc * gate.d, magnitude, seed)),
        kv(random_floats(gate.t * (gate.hc + 1) * gate.d, magnitude, seed + 1)),
        q(random_floats(gate.hc * gate.d, 1.0F, seed + 2)),
        k(random_floats(gate.hc * gate.d, 1.0F, seed + 3)) {}

  std::vector<float> run() const { return fused_engram_gate(shape, x, kv, q, k, exact_rsqrt); }

  EngramGate shape;
  std::vector<float> x, kv, q, k;
};

// How far outputs lie outside of what the contract allows, in units of the fp32 result, at worst.
double worst_error(const Inputs& in, const std::vector<float>& got) {
  const EngramGate& s = in.shape;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  double worst = 0;
  for (std::int64_t row = 0; row < s.t * s.hc; ++row) {
    const std::int64_t key = (row + row / s.hc) * s.d;
    const std::int64_t value = ((row / s.hc + 1) * (s.hc + 1) - 1) * s.d;
    const std::int64_t weight = row % s.hc * s.d;
    double xx = 0;
    double kk = 0;
    double dot = 0;
    double sizes = 0;
    for (std::int64_t i = 0; i < s.d; ++i) {
      const double x = static_cast<double>(in.x[at(row * s.d + i)]);
      const double y = static_cast<double>(in.kv[at(key + i)]);
      const double w =
          static_cast<double>(in.q[at(weight + i)]) * static_cast<double>(in.k[at(weight + i)]);
      xx += x * x;
      kk += y * y;
      dot += x * w * y;
      sizes += std::fabs(x * w * y);
    }
    const auto d = static_cast<double>(s.d);
    const double eps = static_cast<double>(s.eps);
    const double scale = 1 / std::sqrt(xx / d + eps) / std::sqrt(kk / d + eps) / std::sqrt(d);
    const double e = 0x1p-20 * sizes * scale;
    const double low = exact_gate(dot * scale - e, static_cast<double>(s.clamp));
    const double high = exact_gate(dot * scale + e, static_cast<double>(s.clamp));
    for (std::int64_t i = 0; i < s.d; ++i) {
      const double x = static_cast<double>(in.x[at(row * s.d + i)]);
      const double v = static_cast<double>(in.kv[at(value + i)]);
      const float out = got[at(row * s.d + i)];
      const double slack = ulp(out) + 0x1p-18 * std::max(std::fabs(low * v), std::fabs(high * v));
      const double least = std::min(x + low * v, x + high * v) - slack;
      const double most = std::max(x + low * v, x + high * v) + slack;
      const double outside =
          std::max({0.0, least - static_cast<double>(out), static_cast<double>(out) - most});
      worst = std::max(worst, outside / ulp(out));
    }
  }
  return worst;
}

TEST_CASE("The gate is within the tolerance of its contract of the value in fp64") {
  for (const std::int64_t d : {8, 64, 1280, 5120, 8200}) {
    for (const float magnitude : {1e-7F, 1e-3F, 1.0F, 448.0F, 1e10F}) {
      CAPTURE(d, magnitude);
      const Inputs in({3, 4, d, 1e-6F, 1e-6F}, magnitude, 7);
      CHECK(worst_error(in, in.run()) == 0.0);
    }
  }
}

TEST_CASE("The sigmoid is close to the exact one everywhere, and 0, 1/2 and 1 where it must be") {
  double worst = 0;
  for (float z = -87.0F; z < 120.0F; z += 0.00173F) {
    const double exact = 1 / (1 + std::exp(-static_cast<double>(z)));
    const float got = sigmoid(z);
    worst = std::max(worst, std::fabs(static_cast<double>(got) - exact) / ulp(got));
  }
  CHECK(worst <= 4.0);
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(sigmoid(0.0F) == 0.5F);
  CHECK(sigmoid(-0.0F) == 0.5F);
  CHECK(sigmoid(infinity) == 1.0F);
  CHECK(sigmoid(-infinity) == 0.0F);
  CHECK(sigmoid(-104.5F) == 0.0F);
  CHECK(sigmoid(-100.0F) > 0.0F);
  CHECK(std::isnan(sigmoid(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("A product below the clamp counts as the clamp, with its own sign") {
  EngramGate shape = {1, 1, 8, 0.0F, 0.25F};
  Inputs in(shape, 1.0F, 1);
  std::fill(in.x.begin(), in.x.end(), 1.0F);
  std::fill(in.kv.begin(), in.kv.end(), 1.0F);
  std::fill(in.q.begin(), in.q.end(), 0.0F);
  in.q[0] = 0.125F;
  std::fill(in.k.begin(), in.k.end(), 1.0F);
  CHECK(in.run()[0] == 1.0F + sigmoid(0.5F));
  in.q[0] = -0.125F;
  CHECK(in.run()[0] == 1.0F + sigmoid(-0.5F));
}

TEST_CASE("A stream has its own key and weights, and all streams of a token one value") {
  const Inputs in({2, 3, 16, 1e-6F, 1e-6F}, 1.0F, 3);
  const std::vector<float> together = in.run();
  for (std::size_t token = 0; token < 2; ++token) {
    for (std::size_t stream = 0; stream < 3; ++stream) {
      Inputs alone({1, 1, 16, 1e-6F, 1e-6F}, 1.0F, 3);
      const auto copy = [](const std::vector<float>& from, std::size_t first, float* to) {
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(first), 16, to);
      };
      copy(in.x, (token * 3 + stream) * 16, alone.x.data());
      copy(in.kv, (token * 4 + stream) * 16, alone.kv.data());
      copy(in.kv, (token * 4 + 3) * 16, alone.kv.data() + 16);
      copy(in.q, stream * 16, alone.q.data());
      copy(in.k, stream * 16, alone.k.data());
      const std::vector<float> one = alone.run();
      CHECK(std::equal(one.begin(), one.end(),
                       together.begin() + static_cast<std::ptrdiff_t>((token * 3 + stream) * 16)));
    }
  }
}

TEST_CASE("A NaN in a row or its key makes the row NaN, and no other") {
  Inputs in({2, 2, 16, 1e-6F, 1e-6F}, 1.0F, 4);
  in.x[5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> out = in.run();
  for (std::size_t i = 0; i < out.size(); ++i) {
    CAPTURE(i);
    CHECK(std::isnan(out[i]) == (i < 16));
  }
}

}  // namespace
}  // namespace kiln::reference
