#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"
#include "trait_registry/ops/wo_a_launch.hpp"

namespace kiln::registry::ops {
namespace {

std::int64_t width(const Problem& problem) {
  return problem.dim("g") * problem.dim("r");
}

// The kernel counts its threads, 16 for each output, in 32 bits.
std::string contract(const Problem& problem) {
  return wo_a_contract(problem, (std::int64_t{1} << 28) - 1);
}

std::int64_t scale_bytes(const Problem& problem) {
  return round_up(problem.dim("m"), 128) * round_up(width(problem) / 32, 4);
}

}  // namespace

Op attention_wo_a_bf16_small_batch_mxfp8() {
  Op op;
  op.name = "wo_a_bf16_small_batch_mxfp8";
  op.family = "attention";
  op.summary = "wo_a_bf16_small_batch, stored as MXFP8";
  op.args = {
      wo_a_tokens(),
      wo_a_weights("A matrix of weights for each g; r is a multiple of 64."),
      {.name = "q",
       .summary = "The products in e4m3, each group of 32 divided by its scale.",
       .dtypes = {DType::kE4M3, DType::kU8},
       .shape = {"m", Dim::derived("g*r", width)},
       .access = Access::kWrite},
      {.name = "sf",
       .summary = "Scales in e8m0, 128x4 swizzled; padding is zeroed.",
       .dtypes = {DType::kE8M0, DType::kU8},
       .shape = {Dim::derived("ceil128(m)*ceil4(g*r/32)", scale_bytes)},
       .alignment = 1,
       .access = Access::kWrite},
  };
  op.traits = wo_a_traits();
  op.kernels = {{
      .name = "small_batch",
      .source = "attention/wo_a_bf16_small_batch_mxfp8.cuh",
      .instantiation = "kiln::wo_a_bf16_small_batch_mxfp8<{TOKENS}, {PDL}>",
      .params = {Param::data("x"), Param::stride("x", 0), Param::stride("x", 1), Param::data("w"),
                 Param::data("q"), Param::data("sf"), Param::dim("m", ScalarType::kI32),
                 Param::dim("g", ScalarType::kI32), Param::dim("r", ScalarType::kI32),
                 Param::dim("d", ScalarType::kI32), Param::constants_ready()},
      .geometry = wo_a_geometry,
  }};
  op.choose = choose_wo_a;
  op.contract = contract;
  return op;
}

}  // namespace kiln::registry::ops
