#pragma once

/// \file
/// How the ops over rows spread rows over warps and CTAs (kernel_templates/layernorm). It changes
/// the time, never a bit. In a header, so that the digest of an op's description covers it.

#include <algorithm>
#include <cstdint>
#include <limits>
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

constexpr std::int64_t kWidestGrid = std::numeric_limits<std::int32_t>::max();  ///< CTAs along x.

/// Empty, or what is wrong with symbol rows where each has a CTA of its own along x.
inline std::string wrong_rows(const Problem& problem) {
  const std::int64_t rows = problem.dim("rows");
  return rows <= kWidestGrid ? std::string()
                             : "rows must be at most " + std::to_string(kWidestGrid) + ", found " +
                                   std::to_string(rows);
}

constexpr std::int64_t kLongestShortRow = 8192;  ///< Elements; longer rows are read twice.

inline TraitSpec loop_trait() {
  return TraitSpec::boolean("LOOP",
                            "CTAs go from row to row; without, each takes one, in fewer registers");
}

/// Which combinations of the traits VECTORS, CTAS and LOOP the norms of one matrix have.
inline bool norm_exists(const Traits& traits, const Target&) {
  const std::int64_t vectors = traits["VECTORS"];
  const std::int64_t ctas = traits["CTAS"];
  return (ctas == 1 || vectors == 1) && (traits["LOOP"] != 0 || (ctas == 1 && vectors != 0));
}

constexpr std::int64_t kSegment = 256;  ///< Elements of a row whose sum one warp adds up.

/// Whether clusters pay: one row keeps the schedulers of one multiprocessor busy for longer than an
/// exchange between several takes. Not tried on the targets whose clusters are left out.
inline bool norm_spreads(const Problem& problem, std::int64_t most_rows) {
  const std::int64_t k = problem.dim("k");
  return k >= 16 * kSegment && k <= kLongestShortRow && problem.dim("m") <= most_rows &&
         problem.target().major != 12;
}

/// The CTAs beyond the first row of the grid (y or z, from 1 on) that zero the padding of MXFP8
/// scales, so that no CTA with rows has to. `threads` is what one row of the grid has. With many
/// rows there is little padding for each, and none of this is worth a CTA.
inline std::uint32_t padding_ctas(const Problem& problem, std::int64_t threads) {
  constexpr std::int64_t kMostRows = 512;
  constexpr std::int64_t kMostCtas = 8;
  const std::int64_t m = problem.dim("m");
  if (m % 128 == 0 || m > kMostRows) {
    return 0;
  }
  const std::int64_t chunks = ceil_div(problem.dim("k"), 128) * 32;  // 16 bytes: one store each
  return static_cast<std::uint32_t>(std::min(ceil_div(chunks, threads), kMostCtas));
}

/// Launch of a norm (kernel_templates/layernorm/row_norm.cuh).
struct NormLaunch {
  std::int64_t vectors;         ///< Vectors of 8 elements that a thread holds; 0 for long rows.
  std::int64_t ctas;            ///< CTAs that share a row.
  std::int64_t threads_per_sm;  ///< Resident ones, by the kernel's registers; 0: a CTA per row.
  bool pads = false;            ///< Gives MXFP8 scales.

  Geometry geometry(const Problem& problem) const {
    const std::int64_t m = problem.dim("m");
    const std::int64_t sms = multiprocessors(problem.target());
    std::int64_t threads = 1024;
    std::int64_t rows = 1;  // that a CTA takes at once
    if (vectors != 0) {
      threads = 32 * ceil_div(problem.dim("k"), kSegment * vectors * ctas);
      // Short rows share a CTA when there are more than the device has room for at once.
      if (ctas == 1) {
        rows = std::clamp<std::int64_t>(std::min(256 / threads, m / (4 * sms)), 1, 8);
      }
    }
    std::int64_t groups = ceil_div(m, rows);
    const std::int64_t per_sm = std::max<std::int64_t>(threads_per_sm / (threads * rows), 1);
    const std::int64_t resident = std::max<std::int64_t>(1, sms * per_sm / ctas);
    if (threads_per_sm != 0 && groups > resident) {
      groups = ceil_div(groups, ceil_div(groups, resident));  // As many rounds, but even ones.
    }
    Geometry geometry;
    geometry.grid.x = static_cast<std::uint32_t>(groups * ctas);
    geometry.block = {static_cast<std::uint32_t>(threads), static_cast<std::uint32_t>(rows), 1};
    geometry.cluster.x = static_cast<std::uint32_t>(ctas);
    if (pads && groups != 0) {
      geometry.grid.y += padding_ctas(problem, groups * ctas * threads * rows);
    }
    return geometry;
  }
};

constexpr std::int64_t kFewRows = 512;  ///< So few that CTAs with one row each leave room.

/// VECTORS and LOOP of a norm of bf16 rows that no cluster shares. A multiprocessor needs about 64
/// KiB under way to keep the memory busy: with many rows, many CTAs in few registers do better than
/// few that load ahead.
inline void choose_unshared(const Problem& problem, Traits& traits) {
  const std::int64_t m = problem.dim("m");
  const std::int64_t k = problem.dim("k");
  const bool many = m > kFewRows && k >= 8 * kSegment && k <= kLongestShortRow;
  traits.set("LOOP", many ? 0 : 1);
  traits.set("VECTORS", k > kLongestShortRow ? 0 : k < 8 * kSegment ? 1 : 2);
}

/// Threads that a multiprocessor has registers for, of a norm of bf16 rows; 0: see NormLaunch.
inline std::int64_t norm_threads_per_sm(const Traits& traits) {
  const std::int64_t vectors = traits["VECTORS"];
  return traits["LOOP"] == 0 ? 0 : vectors == 4 ? 640 : vectors == 2 ? 960 : 1280;
}

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
