#pragma once

/// \file
/// What a call costs at least, and how many sets of tensors keep its timing honest.

#include <algorithm>
#include <cstddef>

namespace kiln::tools::bench {

/// One graph node of a kernel that does nothing, rounded: no call takes less.
inline constexpr double kLeastUs = 0.5;

/// The bytes over the bandwidth, in TB/s, or kLeastUs, whichever is larger.
inline double floor_us(std::size_t bytes, double terabytes_per_second) {
  return std::max(static_cast<double>(bytes) / (terabytes_per_second * 1e6), kLeastUs);
}

/// How many sets of tensors the calls of a graph take in turn. A call that moves up to 8 MiB keeps
/// one set in L2; a larger one is given as many as make 256 MiB, so that none is found there.
inline std::size_t set_count(std::size_t bytes) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  if (bytes <= 8 * kMiB) {
    return 1;
  }
  return std::clamp<std::size_t>((256 * kMiB + bytes - 1) / bytes, 2, 100);
}

}  // namespace kiln::tools::bench
