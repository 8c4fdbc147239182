#include "reference/engram_gate.hpp"

#include <bit>
#include <cmath>
#include <cstddef>

namespace kiln::reference {
namespace {

// exp(-a) for a >= 0; kernel_templates/prelude/sigmoid.cuh takes the same steps.
float exp_of_negative(float a) noexcept {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer.
  const float bounded = a > 150.0F ? 150.0F : a;
  const float shifted = std::fma(bounded, -kLog2E, kRound);
  const float n = shifted - kRound;
  const float r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, -bounded));
  float p = 1.0F / 5040;
  for (const float coefficient : {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F}) {
    p = std::fma(p, r, coefficient);
  }
  // 2^n in two factors, neither of which is subnormal. Of a NaN, anything: p is one.
  const auto whole = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4B400000U);
  const std::int32_t half = whole >> 1;
  const auto power = [](std::int32_t exponent) {
    return std::bit_cast<float>((static_cast<std::uint32_t>(exponent) + 127U) << 23U);
  };
  const float scaled = p * power(half);
  return scaled * power(whole - half);
}

// What the gate of one row is made of.
struct Sums {
  float x = 0;
  float key = 0;
  float dot = 0;
};

Sums sums_of(const float* x, const float* key, const float* q_weight, const float* k_weight,
             std::int64_t d) {
  std::vector<float> weighted(static_cast<std::size_t>(d));
  for (std::size_t i = 0; i < weighted.size(); ++i) {
    const float weight = q_weight[i] * k_weight[i];
    weighted[i] = x[i] * weight;
  }
  return {row_sum(x, x, d), row_sum(key, key, d), row_sum(weighted.data(), key, d)};
}

float gate_of(float dot, float clamp) {
  const float size = std::fabs(dot) < clamp ? clamp : std::fabs(dot);
  return sigmoid(std::copysign(std::sqrt(size), dot));
}

}  // namespace

float sigmoid(float z) noexcept {
  const float e = exp_of_negative(std::fabs(z));
  return (z < 0 ? e : 1.0F) / (1.0F + e);
}

std::vector<float> fused_engram_gate(const EngramGate& shape, const std::vector<float>& x,
                                     const std::vector<float>& kv,
                                     const std::vector<float>& q_weight,
                                     const std::vector<float>& k_weight, const Rsqrt& rsqrt) {
  const auto width = static_cast<float>(shape.d);
  const auto rows = static_cast<std::size_t>(shape.t * shape.hc);
  const auto key_of = [&](std::size_t row) {
    const std::int64_t token = static_cast<std::int64_t>(row) / shape.hc;
    return kv.data() + (static_cast<std::int64_t>(row) + token) * shape.d;
  };
  std::vector<Sums> sums(rows);
  std::vector<float> means;  // Of x and key, in turn.
  for (std::size_t row = 0; row < rows; ++row) {
    const auto start = static_cast<std::int64_t>(row) * shape.d;
    const auto stream = static_cast<std::int64_t>(row) % shape.hc * shape.d;
    sums[row] = sums_of(x.data() + start, key_of(row), q_weight.data() + stream,
                        k_weight.data() + stream, shape.d);
    means.push_back(sums[row].x / width + shape.eps);
    means.push_back(sums[row].key / width + shape.eps);
  }
  const std::vector<float> inverse = rsqrt(means);
  const float scale = 1.0F / std::sqrt(width);
  std::vector<float> out(x.size());
  for (std::size_t row = 0; row < rows; ++row) {
    const float rstd = inverse[2 * row] * inverse[2 * row + 1];
    const float normal = sums[row].dot * rstd;
    const float gate = gate_of(normal * scale, shape.clamp);
    const float* const value =
        kv.data() +
        ((static_cast<std::int64_t>(row) / shape.hc + 1) * (shape.hc + 1) - 1) * shape.d;
    for (std::int64_t i = 0; i < shape.d; ++i) {
      const auto at = row * static_cast<std::size_t>(shape.d) + static_cast<std::size_t>(i);
      const float gated = gate * value[i];
      out[at] = x[at] + gated;
    }
  }
  return out;
}

}  // namespace kiln::reference
