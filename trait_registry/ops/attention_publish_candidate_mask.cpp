#include <kiln/op.hpp>

#include "trait_registry/ops/candidate_launch.hpp"

namespace kiln::registry::ops {

Op attention_publish_candidate_mask() {
  Op op;
  op.name = "publish_candidate_mask";
  op.family = "attention";
  op.summary = "Which positions lie in selected blocks whose score is above -inf";
  op.args = {
      candidate_tensor("indices", "Of selected blocks; one that is no block marks nothing.",
                       DType::kI32, {"rows", "k"}, Access::kRead),
      candidate_tensor("values", "Their scores.", DType::kF32, {"rows", "k"}, Access::kRead),
      candidate_block_size(),
      candidate_tensor("keep", "Every position of those blocks.", DType::kBool, {"rows", "width"},
                       Access::kWrite),
  };
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {{
      .name = "publish",
      .source = "attention/publish_candidate_mask.cuh",
      .instantiation = "kiln::publish_candidate_mask<{PDL}>",
      .params = {Param::data("indices"), Param::data("values"), Param::data("keep"),
                 Param::scalar("block_size"), Param::dim("k", ScalarType::kI32),
                 Param::dim("width", ScalarType::kI32)},
      .geometry = [](const Problem& problem,
                     const Traits&) { return candidate_mask_geometry(problem); },
  }};
  op.contract = wrong_rows;
  op.scalar_contract = [](const Problem&, const Scalars& scalars) {
    return at_least_one(scalars, "block_size");
  };
  return op;
}

}  // namespace kiln::registry::ops
