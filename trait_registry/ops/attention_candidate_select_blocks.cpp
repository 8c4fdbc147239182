#include <kiln/op.hpp>

#include "trait_registry/ops/candidate_launch.hpp"

namespace kiln::registry::ops {
namespace {

Geometry geometry(const Problem& problem, const Traits&) {
  Geometry geometry = candidate_select_geometry(problem, problem.dim("b"));
  if (problem.dim("k") == 0) {
    geometry.grid.x = 0;
  }
  return geometry;
}

std::string contract(const Problem& problem) {
  const std::int64_t k = problem.dim("k");
  const std::int64_t b = problem.dim("b");
  return k <= b || problem.dim("rows") == 0
             ? wrong_rows(problem)
             : "k must be at most b = " + std::to_string(b) + ", found " + std::to_string(k);
}

}  // namespace

Op attention_candidate_select_blocks() {
  Op op;
  op.name = "candidate_select_blocks";
  op.family = "attention";
  op.summary = "The k greatest scores of each row: NaN above +inf, ties toward the lower index";
  op.args = {
      candidate_tensor("scores", "Of each block.", DType::kF32, {"rows", "b"}, Access::kRead),
      candidate_tensor("indices", "Of the selected blocks, ascending.", DType::kI32, {"rows", "k"},
                       Access::kWrite),
      candidate_tensor("values", "Their scores.", DType::kF32, {"rows", "k"}, Access::kWrite),
  };
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {{
      .name = "select",
      .source = "attention/candidate_select_blocks.cuh",
      .instantiation = "kiln::candidate_select_blocks<{PDL}>",
      .params = {Param::data("scores"), Param::data("indices"), Param::data("values"),
                 Param::dim("b", ScalarType::kI32), Param::dim("k", ScalarType::kI32)},
      .geometry = geometry,
  }};
  op.contract = contract;
  return op;
}

}  // namespace kiln::registry::ops
