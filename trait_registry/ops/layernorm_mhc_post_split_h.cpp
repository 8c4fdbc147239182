#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

// Measured on an H200 (bench/README.md); it changes the time, never a bit.
Geometry geometry(const Problem& problem, const Traits&) {
  const std::int64_t t = problem.dim("t");
  return elementwise_geometry(t, problem.dim("h") / 8, t <= 64 ? 32 : 128);
}

std::string contract(const Problem& problem) {
  const std::int64_t h = problem.dim("h");
  return h > 0 && h % 8 == 0 ? std::string()
                             : "h must be a positive multiple of 8, found " + std::to_string(h);
}

}  // namespace

Op layernorm_mhc_post_split_h() {
  Op op;
  op.name = "mhc_post_split_h";
  op.family = "layernorm";
  op.summary = "The four hyper-connection streams after a block: post * x + comb * residual";
  op.args = {
      {.name = "x",
       .summary = "The block's output; h is a multiple of 8.",
       .dtypes = {DType::kBF16},
       .shape = {"t", "h"}},
      {.name = "residual",
       .summary = "The streams before the block.",
       .dtypes = {DType::kBF16},
       .shape = {"t", 4, "h"}},
      {.name = "post",
       .summary = "The weight of x in each stream.",
       .dtypes = {DType::kF32},
       .shape = {"t", 4}},
      {.name = "comb",
       .summary = "The weight of each stream (first) in each stream.",
       .dtypes = {DType::kF32},
       .shape = {"t", 4, 4}},
      {.name = "out",
       .summary = "The streams after it.",
       .dtypes = {DType::kBF16},
       .shape = {"t", 4, "h"},
       .access = Access::kWrite},
  };
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {{
      .name = "post",
      .source = "layernorm/mhc_post_split_h.cuh",
      .instantiation = "kiln::mhc_post_split_h<{PDL}>",
      .params = {Param::data("x"), Param::data("residual"), Param::data("post"),
                 Param::data("comb"), Param::data("out"), Param::dim("t", ScalarType::kI32),
                 Param::dim("h", ScalarType::kI32)},
      .geometry = geometry,
  }};
  op.contract = contract;
  return op;
}

}  // namespace kiln::registry::ops
