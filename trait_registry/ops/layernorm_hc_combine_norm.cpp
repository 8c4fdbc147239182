#include <kiln/op.hpp>

#include "trait_registry/ops/hc_launch.hpp"

namespace kiln::registry::ops {

Op layernorm_hc_combine_norm() {
  Op op;
  op.name = "hc_combine_norm";
  op.family = "layernorm";
  op.summary = "rmsnorm of the weighted sum of four hyper-connection streams";
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
  };
  op.traits = hc_traits();
  op.kernels = {{
      .name = "norm",
      .source = "layernorm/hc_combine_norm.cuh",
      .instantiation = "kiln::hc_combine_norm<{PRE}, {VECTORS}, {CTAS}, {PDL}>",
      .params = {Param::data("x"), Param::stride("x", 0), Param::data("pre"), Param::data("w"),
                 Param::data("y"), Param::scalar("eps"), Param::dim("m", ScalarType::kI32),
                 Param::dim("k", ScalarType::kI32), Param::constants_ready()},
      .geometry = [](const Problem& problem,
                     const Traits& traits) { return hc_geometry(problem, traits, false); },
  }};
  op.choose = [](const Problem& problem, Traits& traits) { choose_hc(problem, traits, false); };
  op.exists = hc_exists;
  op.contract = hc_contract;
  return op;
}

}  // namespace kiln::registry::ops
