#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

// Measured on an H200 (bench/README.md); it changes the time, never a bit.
void choose(const Problem& problem, Traits& traits) {
  const std::int64_t m = problem.dim("m");
  choose_unshared(problem, traits);
  if (norm_spreads(problem, 96)) {
    traits.set("CTAS", m <= 16 ? 4 : 2);
    traits.set("VECTORS", 1);
  } else if (m <= 16 && traits["VECTORS"] == 1) {
    traits.set("LOOP", 0);
  } else if (traits["LOOP"] == 0 && m <= 8 * multiprocessors(problem.target())) {
    traits.set("LOOP", 1);  // Quantising takes long: two rows for each CTA hide it better.
    traits.set("VECTORS", 4);
  }
}

Geometry geometry(const Problem& problem, const Traits& traits) {
  return NormLaunch{traits["VECTORS"], traits["CTAS"], norm_threads_per_sm(traits), true}.geometry(
      problem);
}

}  // namespace

Op layernorm_rmsnorm_mxfp8() {
  Op op;
  op.name = "rmsnorm_mxfp8";
  op.family = "layernorm";
  op.summary = "rmsnorm of bf16 rows, stored as bf16 and as MXFP8";
  op.args = {
      {.name = "x",
       .summary = "Activations; k is a multiple of 32.",
       .dtypes = {DType::kBF16},
       .shape = {"m", "k"},
       .layout = Layout::kRowStrided},
      {.name = "w",
       .summary = "Weights.",
       .dtypes = {DType::kBF16},
       .shape = {"k"},
       .constant = true},
      {.name = "eps", .summary = "Added to the mean square.", .scalar = ScalarType::kF32},
      {.name = "y",
       .summary = "The normalised rows.",
       .dtypes = {DType::kBF16},
       .shape = {"m", "k"},
       .access = Access::kWrite},
      {.name = "q",
       .summary = "y in e4m3, each group of 32 divided by its scale.",
       .dtypes = {DType::kE4M3, DType::kU8},
       .shape = {"m", "k"},
       .access = Access::kWrite},
      {.name = "sf",
       .summary = "Scales in e8m0, 128x4 swizzled; padding is zeroed.",
       .dtypes = {DType::kE8M0, DType::kU8},
       .shape = {mxfp8_scales("ceil128(m)*ceil4(k/32)")},
       .alignment = 1,
       .access = Access::kWrite},
  };
  op.traits = {
      {.name = "VECTORS",
       .summary = "vectors of 8 elements that one thread holds; 0: the row is read twice",
       .domain = {0, 1, 2, 4}},
      {.name = "CTAS", .summary = "CTAs of a cluster that share a row", .domain = {1, 2, 4}},
      loop_trait(),
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
  op.kernels = {{
      .name = "norm",
      .source = "layernorm/rmsnorm_mxfp8.cuh",
      .instantiation = "kiln::rmsnorm_mxfp8<{VECTORS}, {CTAS}, {LOOP}, {PDL}>",
      .params = {Param::data("x"), Param::stride("x", 0), Param::data("w"), Param::data("y"),
                 Param::data("q"), Param::data("sf"), Param::scalar("eps"),
                 Param::dim("m", ScalarType::kI32), Param::dim("k", ScalarType::kI32),
                 Param::constants_ready()},
      .geometry = geometry,
  }};
  op.choose = choose;
  op.exists = norm_exists;
  op.contract = [](const Problem& problem) { return wrong_k(problem, 32); };
  return op;
}

}  // namespace kiln::registry::ops
