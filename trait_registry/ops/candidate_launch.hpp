#pragma once

/// \file
/// What the candidate ops share: arguments, conditions on their scalars, and how rows spread over
/// CTAs (kernel_templates/attention/candidate_*.cuh). It changes the time, never a bit.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {

inline ArgSpec candidate_tensor(const char* name, const char* summary, DType dtype,
                                std::vector<Dim> shape, Access access) {
  ArgSpec arg;
  arg.name = name;
  arg.summary = summary;
  arg.dtypes = {dtype};
  arg.shape = std::move(shape);
  arg.alignment = 1;
  arg.access = access;
  return arg;
}

inline ArgSpec candidate_logits() {
  ArgSpec arg = candidate_tensor("logits", "One for each position.", DType::kF32, {"rows", "width"},
                                 Access::kRead);
  arg.layout = Layout::kRowStrided;
  return arg;
}

inline ArgSpec candidate_seq_lens() {
  ArgSpec arg = candidate_tensor("seq_lens", "Visible positions of each row; none below 0.",
                                 DType::kI64, {"rows"}, Access::kRead);
  arg.dtypes.push_back(DType::kI32);
  return arg;
}

inline ArgSpec candidate_scalar(const char* name, const char* summary) {
  return {.name = name, .summary = summary, .scalar = ScalarType::kI32};
}

inline ArgSpec candidate_block_size() {
  return candidate_scalar("block_size", "Positions of a block, at least 1.");
}

inline ArgSpec candidate_topk_blocks() {
  return candidate_scalar("topk_blocks", "Blocks that are selected at most, at least 1.");
}

inline Param wide_seq_lens() {
  return Param::computed(
      "whether seq_lens are i64",
      [](const Problem& p) { return p.dtype("seq_lens") == DType::kI64 ? 1 : 0; },
      ScalarType::kI32);
}

inline std::string at_least_one(const Scalars& scalars, const char* arg) {
  const std::int64_t value = scalars.integer(arg);
  return value >= 1 ? std::string()
                    : std::string(arg) + " must be at least 1, found " + std::to_string(value);
}

/// Empty, or what is wrong with block_size and with symbol b, the number of blocks.
inline std::string wrong_blocks(const Problem& problem, const Scalars& scalars) {
  std::string wrong = at_least_one(scalars, "block_size");
  if (!wrong.empty()) {
    return wrong;
  }
  const std::int64_t blocks = ceil_div(problem.dim("width"), scalars.integer("block_size"));
  const std::int64_t found = problem.dim("b");
  return found == blocks || problem.dim("rows") == 0
             ? std::string()
             : "b must be width / block_size, rounded up: " + std::to_string(blocks) + ", found " +
                   std::to_string(found);
}

/// A CTA for each `positions` of a row, as far as a grid goes.
inline Geometry candidate_row_geometry(const Problem& problem, std::int64_t positions,
                                       std::int64_t threads) {
  constexpr std::int64_t kMostCtas = 65535;
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(problem.dim("rows"));
  geometry.grid.y =
      static_cast<std::uint32_t>(std::min(ceil_div(problem.dim("width"), positions), kMostCtas));
  geometry.block.x = static_cast<std::uint32_t>(threads);
  return geometry;
}

/// Of kernel_templates/attention/candidate_block_scores.cuh.
inline Geometry candidate_scores_geometry(const Problem& problem) {
  return candidate_row_geometry(problem, 1024, 256);
}

inline std::vector<Param> candidate_scores_params(Param scores, Param offset) {
  return {Param::data("logits"),
          Param::stride("logits", 0),
          Param::data("seq_lens"),
          Param::data("out"),
          std::move(scores),
          std::move(offset),
          Param::scalar("block_size"),
          Param::dim("width", ScalarType::kI32),
          wide_seq_lens()};
}

/// Of kernel_templates/attention/candidate_select.cuh.
inline constexpr std::int64_t kSelectThreads = 1024;

/// How many CTAs of that size run at once in clusters of `ctas`: some groups of multiprocessors
/// have a rest that is too small for another cluster.
inline std::int64_t clustered_ctas(const Problem& problem, std::int64_t ctas) {
  const std::int64_t sms = multiprocessors(problem.target());
  return ctas <= 2 ? sms : sms * 9 / 10;
}

/// The same, for rows of `count` scores. As many CTAs as leave a thread with a few scores share a
/// row while there is room for all rows at once, and in any case as many as hold half of it and a
/// grid goes. No clusters on the targets where they were not tried.
inline Geometry candidate_select_geometry(const Problem& problem, std::int64_t count) {
  constexpr std::int64_t kFew = 4;
  constexpr std::int64_t kHeld = 16;
  constexpr std::int64_t kMostCtas = 8;
  const std::int64_t rows = problem.dim("rows");
  std::int64_t ctas = 1;
  while (ctas < kMostCtas && problem.target().major != 12 && rows * ctas * 2 <= kWidestGrid &&
         (count > ctas * kSelectThreads * kHeld ||
          (count > ctas * kSelectThreads * kFew &&
           rows * ctas * 2 <= clustered_ctas(problem, ctas * 2)))) {
    ctas *= 2;
  }
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(rows * ctas);
  geometry.block.x = static_cast<std::uint32_t>(kSelectThreads);
  geometry.cluster.x = static_cast<std::uint32_t>(ctas);
  return geometry;
}

/// Of kernel_templates/attention/candidate_mask.cuh.
inline Geometry candidate_mask_geometry(const Problem& problem) {
  return candidate_row_geometry(problem, 16'384, 512);
}

}  // namespace kiln::registry::ops
