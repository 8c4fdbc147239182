#include <kiln/op.hpp>

#include "trait_registry/ops/hc_launch.hpp"

namespace kiln::registry::ops {

Op layernorm_hc_combine_norm_mxfp8() {
  Op op;
  op.name = "hc_combine_norm_mxfp8";
  op.family = "layernorm";
  op.summary = "hc_combine_norm, stored as bf16 and as MXFP8";
  op.args = {
      {.name = "x",
       .summary = "Four streams of k elements in each row; k is a multiple of 32, at most 8192.",
       .dtypes = {DType::kBF16},
       .shape = {"m", Dim::derived("4*k", [](const Problem& p) { return 4 * p.dim("k"); })},
       .layout = Layout::kRowStrided},
      {.name = "pre",
       .summary = "The streams' weights in each row's sum.",
       .dtypes = {DType::kBF16, DType::kF32},
       .shape = {"m", 4},
       .alignment = 1},
      {.name = "w",
       .summary = "Weights of the norm.",
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
  op.traits = hc_traits();
  op.kernels = {{
      .name = "norm",
      .source = "layernorm/hc_combine_norm_mxfp8.cuh",
      .instantiation = "kiln::hc_combine_norm_mxfp8<{PRE}, {VECTORS}, {CTAS}, {PDL}>",
      .params = {Param::data("x"), Param::stride("x", 0), Param::data("pre"), Param::data("w"),
                 Param::data("y"), Param::data("q"), Param::data("sf"), Param::scalar("eps"),
                 Param::dim("m", ScalarType::kI32), Param::dim("k", ScalarType::kI32),
                 Param::constants_ready()},
      .geometry = [](const Problem& problem,
                     const Traits& traits) { return hc_geometry(problem, traits, true); },
  }};
  op.choose = [](const Problem& problem, Traits& traits) { choose_hc(problem, traits, true); };
  op.exists = hc_exists;
  op.contract = hc_contract;
  return op;
}

}  // namespace kiln::registry::ops
