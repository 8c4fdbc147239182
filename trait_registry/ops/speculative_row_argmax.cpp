#include <algorithm>

#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

constexpr std::int64_t kPerThread = 32;  // Elements that a thread has under way at once.

// With few rows, as many CTAs as a portable cluster has share one; with more, as many as there are
// multiprocessors for. Powers of two, which fill the groups of multiprocessors that clusters are
// placed in. It changes the time, never a bit.
Geometry geometry(const Problem& problem, const Traits&) {
  const std::int64_t rows = problem.dim("rows");
  const std::int64_t n = problem.dim("n");
  const std::int64_t sms = multiprocessors(problem.target());
  const std::int64_t most_threads = rows * 8 <= sms ? 512 : 1024;
  std::int64_t ctas = 8;
  while (ctas > 1 && (rows * ctas > sms || ctas / 2 * most_threads * kPerThread >= n)) {
    ctas /= 2;
  }
  const std::int64_t threads =
      std::clamp<std::int64_t>(round_up(ceil_div(n, ctas * kPerThread), 32), 32, most_threads);
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(rows * ctas);
  geometry.block.x = static_cast<std::uint32_t>(threads);
  geometry.cluster.x = static_cast<std::uint32_t>(ctas);
  return geometry;
}

}  // namespace

Op speculative_row_argmax() {
  Op op;
  op.name = "row_argmax";
  op.family = "speculative";
  op.summary =
      "Index of the largest element of each row; of the lowest among equals, of a NaN first";
  op.args = {
      {.name = "x",
       .summary = "Rows of n elements, such as logits.",
       .dtypes = {DType::kF32},
       .shape = {"rows", "n"},
       .layout = Layout::kRowStrided,
       .alignment = 4},
      {.name = "out",
       .summary = "The indices.",
       .dtypes = {DType::kI64},
       .shape = {"rows"},
       .alignment = 8,
       .access = Access::kWrite},
  };
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {{
      .name = "argmax",
      .source = "speculative/row_argmax.cuh",
      .instantiation = "kiln::row_argmax<{PDL}>",
      .params = {Param::data("x"), Param::stride("x", 0), Param::data("out"),
                 Param::dim("n", ScalarType::kI32)},
      .geometry = geometry,
  }};
  op.contract = [](const Problem& problem) {
    const bool pointless = problem.dim("rows") > 0 && problem.dim("n") == 0;
    return pointless ? std::string("a row must have an element: n must be at least 1, found 0")
                     : std::string();
  };
  return op;
}

}  // namespace kiln::registry::ops
