#pragma once

/// \file
/// How the ops over rows spread rows over warps and CTAs (kernel_templates/layernorm). It changes
/// the time, never a bit. In a header, so that the digest of an op's description covers it.

#include <algorithm>
#include <cstdint>
#include <string>

#include <kiln/op.hpp>

namespace kiln::registry::ops {

/// Multiprocessors of the largest usual device of a target, for sizing grids.
inline std::int64_t multiprocessors(const Target& target) {
  switch (target.major) {
    case 9:
      return 132;
    case 10:
      return target.minor == 0 ? 148 : 160;
    case 11:
      return 20;
    default:
      return 188;
  }
}

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

inline std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return ceil_div(value, step) * step;
}

/// Bytes of the swizzled scales of an MXFP8 [m, k] matrix.
inline Dim mxfp8_scales(const char* expression) {
  return Dim::derived(expression, [](const Problem& problem) {
    return round_up(problem.dim("m"), 128) * round_up(problem.dim("k") / 32, 4);
  });
}

/// Empty, or what is wrong with k.
inline std::string wrong_k(const Problem& problem, std::int64_t multiple) {
  const std::int64_t k = problem.dim("k");
  return k > 0 && k % multiple == 0 ? std::string()
                                    : "k must be a positive multiple of " +
                                          std::to_string(multiple) + ", found " + std::to_string(k);
}

constexpr std::int64_t kLongestShortRow = 8192;  ///< Elements; longer rows are read twice.

/// Which combinations of the traits VECTORS and CTAS the norms have.
inline bool norm_exists(const Traits& traits, const Target&) {
  return traits["CTAS"] == 1 || traits["VECTORS"] == 1;
}

/// CTAs that share a row of bf16 or fp32. With few rows most multiprocessors would be idle, and one
/// row keeps the schedulers of one multiprocessor busy for longer than an exchange takes.
inline std::int64_t norm_ctas(const Problem& problem) {
  const std::int64_t k = problem.dim("k");
  const bool spreads = k >= 4096 && k <= kLongestShortRow && problem.target().major != 12;
  return spreads && problem.dim("m") <= 16 ? 4 : 1;
}

/// Launch of a norm (kernel_templates/layernorm/row_norm.cuh).
struct NormLaunch {
  std::int64_t vectors;         ///< Vectors of 8 elements that a thread holds; 0 for long rows.
  std::int64_t ctas;            ///< CTAs that share a row.
  std::int64_t threads_per_sm;  ///< How many are resident, by the kernel's registers.

  Geometry geometry(const Problem& problem) const {
    const std::int64_t m = problem.dim("m");
    const std::int64_t sms = multiprocessors(problem.target());
    std::int64_t threads = 1024;
    std::int64_t rows = 1;  // that a CTA takes at once
    if (vectors != 0) {
      threads = 32 * ceil_div(problem.dim("k"), 256 * vectors * ctas);
      // Short rows share a CTA when there are more than the device has room for at once.
      if (ctas == 1) {
        rows = std::clamp<std::int64_t>(std::min(256 / threads, m / (4 * sms)), 1, 8);
      }
    }
    const std::int64_t per_sm = std::max<std::int64_t>(1, threads_per_sm / (threads * rows));
    const std::int64_t groups = std::min(ceil_div(m, rows), std::max(sms * per_sm / ctas, sms));
    Geometry geometry;
    geometry.grid.x = static_cast<std::uint32_t>(groups * ctas);
    geometry.block = {static_cast<std::uint32_t>(threads), static_cast<std::uint32_t>(rows), 1};
    geometry.cluster.x = static_cast<std::uint32_t>(ctas);
    return geometry;
  }
};

/// Launch of an elementwise op: a thread for each vector of 8 elements of a row, the rest of the
/// rows along y.
inline Geometry elementwise_geometry(std::int64_t row_steps, std::int64_t vectors,
                                     std::int64_t most_threads) {
  constexpr std::int64_t kMostCtas = 1 << 19;  // Keeps a thread's number within 32 bits.
  const std::int64_t chunks = ceil_div(vectors, most_threads);
  const std::int64_t threads = round_up(ceil_div(vectors, chunks), 32);
  const std::int64_t most_y = std::clamp<std::int64_t>(kMostCtas / chunks, 1, 65535);
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(ceil_div(vectors, threads));
  geometry.grid.y = static_cast<std::uint32_t>(std::min(row_steps, most_y));
  geometry.block.x = static_cast<std::uint32_t>(threads);
  return geometry;
}

}  // namespace kiln::registry::ops
