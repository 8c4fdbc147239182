#include <kiln/op.hpp>

#include "trait_registry/ops/candidate_launch.hpp"

namespace kiln::registry::ops {

Op attention_candidate_block_scores() {
  Op op;
  op.name = "candidate_block_scores";
  op.family = "attention";
  op.summary = "Logits masked past each row's length, and the maximum of each block of them";
  op.args = {
      candidate_logits(),
      candidate_seq_lens(),
      candidate_block_size(),
      candidate_tensor("out", "The logits, -inf at and past seq_lens.", DType::kF32,
                       {"rows", "width"}, Access::kWrite),
      candidate_tensor("scores", "Maxima of blocks, +inf for that of the last visible position.",
                       DType::kF32, {"rows", "b"}, Access::kWrite),
  };
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {{
      .name = "scores",
      .source = "attention/candidate_block_scores.cuh",
      .instantiation = "kiln::candidate_block_scores<{PDL}>",
      .params = candidate_scores_params(
          Param::data("scores"),
          Param::computed("offset of the scores", [](const Problem&) { return 0; })),
      .geometry = [](const Problem& problem,
                     const Traits&) { return candidate_scores_geometry(problem); },
  }};
  op.contract = wrong_rows;
  op.scalar_contract = wrong_blocks;
  return op;
}

}  // namespace kiln::registry::ops
