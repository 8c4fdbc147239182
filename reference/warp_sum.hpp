#pragma once

/// \file
/// The order in which the kernels add up the lanes of a warp.

#include <array>
#include <cstddef>

namespace kiln::reference {

inline constexpr std::size_t kLanes = 32;

/// Of lanes that add pairwise, by xor with 16, 8, 4, 2 and 1. Every lane ends with the same sum,
/// since a pair adds the same two values.
inline float sum_of_warp(std::array<float, kLanes> lanes) {
  for (std::size_t mask = kLanes / 2; mask > 0; mask /= 2) {
    const std::array<float, kLanes> before = lanes;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = before[lane] + before[lane ^ mask];
    }
  }
  return lanes[0];
}

}  // namespace kiln::reference
