#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

// Measured on an H200 (bench/README.md); it changes the time, never a bit.
void choose(const Problem& problem, Traits& traits) {
  const bool spreads = norm_spreads(problem, 16);
  traits.set("X", problem.dtype("x") == DType::kF32 ? 1 : 0);
  traits.set("W", problem.dtype("w") == DType::kF32 ? 1 : 0);
  traits.set("VECTORS", problem.dim("k") > kLongestShortRow ? 0 : spreads ? 1 : 2);
  traits.set("CTAS", spreads ? 4 : 1);
  traits.set("LOOP", traits["VECTORS"] == 2 ? 0 : 1);
}

// Few, since there are four combinations of types: one for few rows, one for many, one for long.
bool exists(const Traits& traits, const Target&) {
  return (traits["VECTORS"] == 1) == (traits["CTAS"] == 4) &&
         (traits["VECTORS"] == 2) == (traits["LOOP"] == 0);
}

Geometry geometry(const Problem& problem, const Traits& traits) {
  const std::int64_t threads_per_sm = traits["LOOP"] == 0 ? 0 : 640;
  return NormLaunch{traits["VECTORS"], traits["CTAS"], threads_per_sm}.geometry(problem);
}

}  // namespace

Op layernorm_rmsnorm_fp32() {
  Op op;
  op.name = "rmsnorm_fp32";
  op.family = "layernorm";
  op.summary = "y = (x / rms(x)) * w over rows of bf16 or fp32, with weights of either type";
  op.args = {
      {.name = "x",
       .summary = "Activations, of any leading shape; k is a multiple of 8.",
       .dtypes = {DType::kBF16, DType::kF32},
       .shape = {Dim::leading("m"), "k"}},
      {.name = "w",
       .summary = "Weights.",
       .dtypes = {DType::kBF16, DType::kF32},
       .shape = {"k"},
       .constant = true},
      {.name = "eps", .summary = "Added to the mean square.", .scalar = ScalarType::kF32},
      {.name = "y",
       .summary = "The normalised rows, of x's dtype.",
       .dtypes = {DType::kBF16, DType::kF32},
       .shape = {Dim::leading("m"), "k"},
       .access = Access::kWrite},
  };
  op.traits = {
      TraitSpec::choice("X", "element type of x and y", {"kiln::bf16", "float"}),
      TraitSpec::choice("W", "element type of w", {"kiln::bf16", "float"}),
      {.name = "VECTORS",
       .summary = "vectors of 8 elements that one thread holds; 0: the row is read twice",
       .domain = {0, 1, 2}},
      {.name = "CTAS", .summary = "CTAs of a cluster that share a row", .domain = {1, 4}},
      loop_trait(),
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
  op.kernels = {{
      .name = "norm",
      .source = "layernorm/rmsnorm_fp32.cuh",
      .instantiation = "kiln::rmsnorm_fp32<{X}, {W}, {VECTORS}, {CTAS}, {LOOP}, {PDL}>",
      .params = {Param::data("x"), Param::data("w"), Param::data("y"), Param::scalar("eps"),
                 Param::dim("m", ScalarType::kI32), Param::dim("k", ScalarType::kI32),
                 Param::constants_ready()},
      .geometry = geometry,
  }};
  op.choose = choose;
  op.exists = exists;
  op.contract = [](const Problem& problem) {
    return problem.dtype("x") == problem.dtype("y") ? wrong_k(problem, 8)
                                                    : std::string("y must have x's dtype");
  };
  return op;
}

}  // namespace kiln::registry::ops
