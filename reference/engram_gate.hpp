#pragma once

/// \file
/// The gate of an engram's value, summed in the order of reference/norm.hpp.

#include <cstdint>
#include <vector>

#include "reference/norm.hpp"

namespace kiln::reference {

/// 1 / (1 + exp(-z)) in fp32, from additions, multiplications and one division that are each
/// rounded to nearest: a device that takes the same steps gets the same bits. Within 4 units of the
/// last place of the exact value, where that is not subnormal.
float sigmoid(float z) noexcept;

struct EngramGate {
  std::int64_t t = 0;
  std::int64_t hc = 0;
  std::int64_t d = 0;  ///< A multiple of 8.
  float eps = 0;
  float clamp = 0;
};

/// x: [t, hc, d], kv: [t, (hc + 1) * d], q_weight, k_weight: [hc, d]. The result is x + gate *
/// value, [t, hc, d], before any rounding to the output's type.
std::vector<float> fused_engram_gate(const EngramGate& shape, const std::vector<float>& x,
                                     const std::vector<float>& kv,
                                     const std::vector<float>& q_weight,
                                     const std::vector<float>& k_weight, const Rsqrt& rsqrt);

}  // namespace kiln::reference
