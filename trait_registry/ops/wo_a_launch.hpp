#pragma once

/// \file
/// What the wo_a ops share: arguments and contract; and the small batch ones, their launch.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <kiln/op.hpp>

namespace kiln::registry::ops {

inline ArgSpec wo_a_weights(const char* summary) {
  ArgSpec arg;
  arg.name = "w";
  arg.summary = summary;
  arg.dtypes = {DType::kBF16};
  arg.shape = {"g", "r", "d"};
  arg.constant = true;
  return arg;
}

constexpr std::int64_t kMostOutputs = std::numeric_limits<std::int32_t>::max();

/// Empty, or what is wrong with d or with the number of outputs.
inline std::string wrong_wo_a(const Problem& problem, std::int64_t d_multiple,
                              std::int64_t most_outputs = kMostOutputs) {
  const std::int64_t d = problem.dim("d");
  const std::int64_t g = problem.dim("g");
  const std::int64_t r = problem.dim("r");
  if (d <= 0 || d % d_multiple != 0) {
    return "d must be a positive multiple of " + std::to_string(d_multiple) + ", found " +
           std::to_string(d);
  }
  return r == 0 || g <= most_outputs / r
             ? std::string()
             : "g * r must be at most " + std::to_string(most_outputs) + ", found " +
                   std::to_string(g) + " * " + std::to_string(r);
}

/// x of the small batch ops.
inline ArgSpec wo_a_tokens() {
  ArgSpec arg;
  arg.name = "x";
  arg.summary = "Activations of at most 16 tokens; d is a multiple of 512.";
  arg.dtypes = {DType::kBF16};
  arg.shape = {"m", "g", "d"};
  arg.layout = Layout::kRowStrided;
  return arg;
}

inline std::vector<TraitSpec> wo_a_traits() {
  return {
      {.name = "TOKENS", .summary = "tokens that a launch has accumulators for", .domain = {8, 16}},
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
}

inline void choose_wo_a(const Problem& problem, Traits& traits) {
  traits.set("TOKENS", problem.dim("m") <= 8 ? 8 : 16);
}

/// Two CTAs, which are a cluster, have 32 outputs of all tokens, a half of d each, and each of
/// their 8 warps 16 KiB of weights under way, 12 of them to shared memory
/// (kernel_templates/attention/wo_a_tile.cuh).
inline Geometry wo_a_geometry(const Problem& problem, const Traits& /*traits*/) {
  const std::int64_t outputs = problem.dim("m") == 0 ? 0 : problem.dim("g") * problem.dim("r");
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(outputs / 32 * 2);
  geometry.block.x = 256;
  geometry.cluster.x = 2;
  geometry.dynamic_shared_bytes = 8 * 12 * 1024;
  return geometry;
}

inline std::string wo_a_contract(const Problem& problem, std::int64_t most_outputs = kMostOutputs) {
  constexpr std::int64_t kMostTokens = 16;
  const std::int64_t m = problem.dim("m");
  const std::int64_t r = problem.dim("r");
  if (m > kMostTokens) {
    return "m must be at most 16, found " + std::to_string(m);
  }
  if (r <= 0 || r % 64 != 0) {
    return "r must be a positive multiple of 64, found " + std::to_string(r);
  }
  return wrong_wo_a(problem, 512, most_outputs);
}

}  // namespace kiln::registry::ops
