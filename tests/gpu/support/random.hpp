#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "reference/bf16.hpp"

namespace kiln::gpu {

/// bf16 bit patterns of normal random values times `magnitude`.
inline std::vector<std::uint16_t> random_bf16(std::size_t count, float magnitude,
                                              std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    value = reference::to_bf16(normal(generator) * magnitude);
  }
  return values;
}

}  // namespace kiln::gpu
