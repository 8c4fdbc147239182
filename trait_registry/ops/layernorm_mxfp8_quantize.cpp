#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

// Measured on an H200 (bench/README.md); it changes the time, never a bit.
void choose(const Problem& problem, Traits& traits) {
  traits.set("ROWS", problem.dim("m") <= 128 ? 1 : 2);
}

Geometry geometry(const Problem& problem, const Traits& traits) {
  const std::int64_t m = problem.dim("m");
  Geometry geometry = elementwise_geometry(ceil_div(m, traits["ROWS"]), problem.dim("k") / 8,
                                           m <= 16    ? 32
                                           : m <= 128 ? 128
                                           : m <= 512 ? 64
                                                      : 256);
  if (m != 0) {
    geometry.grid.z +=
        padding_ctas(problem, std::int64_t{geometry.grid.x} * geometry.grid.y * geometry.block.x);
  }
  return geometry;
}

}  // namespace

Op layernorm_mxfp8_quantize() {
  Op op;
  op.name = "mxfp8_quantize";
  op.family = "layernorm";
  op.summary = "Rows of bf16 as MXFP8: e4m3 in groups of 32 with e8m0 scales";
  op.args = {
      {.name = "x",
       .summary = "Activations; k is a multiple of 32.",
       .dtypes = {DType::kBF16},
       .shape = {"m", "k"},
       .layout = Layout::kRowStrided},
      {.name = "q",
       .summary = "x in e4m3, each group of 32 divided by its scale.",
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
      {.name = "ROWS", .summary = "rows of which one thread takes a vector", .domain = {1, 2, 4}},
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
  op.kernels = {{
      .name = "quantize",
      .source = "layernorm/mxfp8_quantize.cuh",
      .instantiation = "kiln::mxfp8_quantize<{ROWS}, {PDL}>",
      .params = {Param::data("x"), Param::stride("x", 0), Param::data("q"), Param::data("sf"),
                 Param::dim("m", ScalarType::kI32), Param::dim("k", ScalarType::kI32)},
      .geometry = geometry,
  }};
  op.choose = choose;
  op.contract = [](const Problem& problem) { return wrong_k(problem, 32); };
  return op;
}

}  // namespace kiln::registry::ops
