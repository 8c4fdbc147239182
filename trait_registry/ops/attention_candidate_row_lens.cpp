#include <algorithm>

#include <kiln/op.hpp>

#include "trait_registry/ops/candidate_launch.hpp"

namespace kiln::registry::ops {
namespace {

Geometry geometry(const Problem& problem, const Traits&) {
  const std::int64_t rows = problem.dim("rows");
  const std::int64_t threads = std::clamp<std::int64_t>(round_up(rows, 32), 32, 256);
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(ceil_div(rows, threads));
  geometry.block.x = static_cast<std::uint32_t>(threads);
  return geometry;
}

std::string scalar_contract(const Problem&, const Scalars& scalars) {
  const std::string wrong = at_least_one(scalars, "topk_blocks");
  return wrong.empty() ? at_least_one(scalars, "block_size") : wrong;
}

}  // namespace

Op attention_candidate_row_lens() {
  Op op;
  op.name = "candidate_row_lens";
  op.family = "attention";
  op.summary = "Blocks of each row, and positions in as many of them as can be selected";
  op.args = {
      candidate_seq_lens(),
      candidate_topk_blocks(),
      candidate_block_size(),
      candidate_tensor("nblocks", "Blocks that hold the row.", DType::kI32, {"rows"},
                       Access::kWrite),
      candidate_tensor("valid", "Positions in topk_blocks of them, the last one included.",
                       DType::kI32, {"rows"}, Access::kWrite),
  };
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {{
      .name = "lens",
      .source = "attention/candidate_row_lens.cuh",
      .instantiation = "kiln::candidate_row_lens<{PDL}>",
      .params = {Param::data("seq_lens"), Param::data("nblocks"), Param::data("valid"),
                 Param::scalar("topk_blocks"), Param::scalar("block_size"),
                 Param::dim("rows", ScalarType::kI32), wide_seq_lens()},
      .geometry = geometry,
  }};
  op.scalar_contract = scalar_contract;
  return op;
}

}  // namespace kiln::registry::ops
