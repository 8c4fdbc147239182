#include <kiln/op.hpp>

#include "trait_registry/ops/wo_a_launch.hpp"

namespace kiln::registry::ops {

// A CTA is a warp and has one output, of which it has up to 4096 weights under way before the wait,
// to 8 KiB of shared memory.
Op attention_wo_a_bf16_gemv() {
  Op op;
  op.name = "wo_a_bf16_gemv";
  op.family = "attention";
  op.summary = "y[0, g, r] = x[0, g] * w[g, r] in bf16, fp32 sums, for one token";
  op.args = {
      {.name = "x",
       .summary = "Activations of one token; d is a multiple of 256.",
       .dtypes = {DType::kBF16},
       .shape = {1, "g", "d"}},
      wo_a_weights("A matrix of weights for each g."),
      {.name = "y",
       .summary = "The products, rounded once.",
       .dtypes = {DType::kBF16},
       .shape = {1, "g", "r"},
       .alignment = 2,  // Any r: the outputs of a g need not begin anywhere.
       .access = Access::kWrite},
  };
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {{
      .name = "gemv",
      .source = "attention/wo_a_bf16_gemv.cuh",
      .instantiation = "kiln::wo_a_bf16_gemv<{PDL}>",
      .params = {Param::data("x"), Param::data("w"), Param::data("y"),
                 Param::dim("r", ScalarType::kI32), Param::dim("d", ScalarType::kI32),
                 Param::constants_ready()},
      .geometry =
          [](const Problem& problem, const Traits&) {
            Geometry geometry;
            geometry.grid.x = static_cast<std::uint32_t>(problem.dim("g") * problem.dim("r"));
            geometry.block.x = 32;
            geometry.dynamic_shared_bytes = 8 * 1024;
            return geometry;
          },
  }};
  op.contract = [](const Problem& problem) { return wrong_wo_a(problem, 256); };
  return op;
}

}  // namespace kiln::registry::ops
