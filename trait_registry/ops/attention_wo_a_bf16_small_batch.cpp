#include <kiln/op.hpp>

#include "trait_registry/ops/wo_a_launch.hpp"

namespace kiln::registry::ops {

Op attention_wo_a_bf16_small_batch() {
  Op op;
  op.name = "wo_a_bf16_small_batch";
  op.family = "attention";
  op.summary = "y[m, g, r] = x[m, g] * w[g, r] in bf16, fp32 sums, for a few tokens";
  op.args = {
      wo_a_tokens(),
      wo_a_weights("A matrix of weights for each g; r is a multiple of 64."),
      {.name = "y",
       .summary = "The products, rounded once.",
       .dtypes = {DType::kBF16},
       .shape = {"m", "g", "r"},
       .access = Access::kWrite},
  };
  op.traits = wo_a_traits();
  op.kernels = {{
      .name = "small_batch",
      .source = "attention/wo_a_bf16_small_batch.cuh",
      .instantiation = "kiln::wo_a_bf16_small_batch<{TOKENS}, {PDL}>",
      .params = {Param::data("x"), Param::stride("x", 0), Param::stride("x", 1), Param::data("w"),
                 Param::data("y"), Param::dim("m", ScalarType::kI32),
                 Param::dim("g", ScalarType::kI32), Param::dim("r", ScalarType::kI32),
                 Param::dim("d", ScalarType::kI32), Param::constants_ready()},
      .geometry = wo_a_geometry,
  }};
  op.choose = choose_wo_a;
  op.contract = [](const Problem& problem) { return wo_a_contract(problem); };
  return op;
}

}  // namespace kiln::registry::ops
