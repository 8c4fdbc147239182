#pragma once

/// \file
/// What hc_combine_norm and hc_combine_norm_mxfp8 share: traits, their choice and the contract.

#include <string>
#include <vector>

#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {

inline std::vector<TraitSpec> hc_traits() {
  return {
      TraitSpec::choice("PRE", "element type of pre", {"kiln::bf16", "float"}),
      TraitSpec::integers("VECTORS", "vectors of 8 elements that one thread holds", 1, 2),
      {.name = "CTAS", .summary = "CTAs of a cluster that share a row", .domain = {1, 2, 4}},
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
}

// A row is 8 bytes for each of its k elements: for few rows, several multiprocessors load it faster
// than one, at the cost of an exchange between them. With MXFP8 there is also so much to do for
// each element that two CTAs a row stay the better choice.
// Measured on an H200 (bench/README.md); it changes the time, never a bit.
inline void choose_hc(const Problem& problem, Traits& traits, bool quantizes) {
  const std::int64_t m = problem.dim("m");
  const bool spreads =
      problem.target().major != 12 && problem.dim("k") >= (m <= 4 ? 4 : 8) * kSegment;
  traits.set("PRE", problem.dtype("pre") == DType::kF32 ? 1 : 0);
  traits.set("CTAS", !spreads ? 1 : m <= 32 ? 4 : m <= 64 || quantizes ? 2 : 1);
  traits.set("VECTORS", traits["CTAS"] != 1 || m <= 128 ? 1 : 2);
}

inline bool hc_exists(const Traits& traits, const Target&) {
  return traits["CTAS"] == 1 || traits["VECTORS"] == 1;
}

inline Geometry hc_geometry(const Problem& problem, const Traits& traits, bool quantizes) {
  const std::int64_t ctas = traits["CTAS"];
  return NormLaunch{traits["VECTORS"], ctas, ctas == 1 ? 0 : 640, quantizes}.geometry(problem);
}

inline std::string hc_contract(const Problem& problem) {
  constexpr std::int64_t kMostRows = 65536;
  if (problem.dim("m") > kMostRows) {
    return "m must be at most 65536, found " + std::to_string(problem.dim("m"));
  }
  if (problem.dim("k") > kLongestShortRow) {
    return "k must be at most 8192, found " + std::to_string(problem.dim("k"));
  }
  return wrong_k(problem, 32);
}

}  // namespace kiln::registry::ops
