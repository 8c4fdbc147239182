#include <cstdint>
#include <string>

#include <kiln/op.hpp>

namespace kiln::registry::ops {
namespace {

constexpr int kMaxM = 32;  // Beyond it a library GEMM is the better choice.

// Measured on an H200 (bench/README.md); it changes the time, never a bit.
void choose(const Problem& problem, Traits& traits) {
  const std::int64_t m = problem.dim("m");
  traits.set("M_SPLIT", m <= 16 ? 1 : m <= 32 ? 2 : m <= 64 ? 4 : 8);
  traits.set("COLUMN_GROUPS", m <= 2 ? 1 : 2);
}

Geometry geometry(const Problem& problem, const Traits& traits) {
  const std::int64_t rows = traits["M_SPLIT"];
  const auto row_tiles = static_cast<std::uint32_t>((problem.dim("m") + rows - 1) / rows);
  const auto groups = static_cast<std::uint32_t>(traits["COLUMN_GROUPS"]);
  const std::uint32_t column_tiles = groups == 1 ? 32 : 8;
  return {.grid = {row_tiles, column_tiles}, .block = {320 * groups}};
}

}  // namespace

// The order of summation is the peer's, in vectors of V = 8 elements below sm_100 and V = 16 from
// sm_100 on, so results of the two groups of targets differ in bits.
Op gemm_n32k5120() {
  Op op;
  op.name = "n32k5120_gemm_bf16";
  op.family = "gemm";
  op.summary = "out[m, 32] = x[m, 5120] * w[32, 5120]^T in bf16, fp32 sums in the peer's order";
  op.args = {
      {.name = "x",
       .summary = "Activations; each row starts on a 32-byte boundary.",
       .dtypes = {DType::kBF16},
       .shape = {"m", 5120},
       .layout = Layout::kRowStrided,
       .alignment = 32},
      {.name = "w",
       .summary = "Weights, one row per output column.",
       .dtypes = {DType::kBF16},
       .shape = {32, 5120},
       .alignment = 32,
       .constant = true},
      {.name = "out",
       .summary = "The products, rounded once.",
       .dtypes = {DType::kBF16},
       .shape = {"m", 32},
       .access = Access::kWrite},
  };
  op.traits = {
      TraitSpec::integers("M_SPLIT", "rows that one CTA computes", 1, 8),
      TraitSpec::integers("COLUMN_GROUPS", "groups of 320 threads with columns of their own", 1, 2),
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
  op.kernels = {{
      .name = "gemm",
      .source = "gemm/n32k5120_gemm_bf16.cuh",
      .instantiation = "kiln::n32k5120_gemm_bf16<{M_SPLIT}, {COLUMN_GROUPS}, {PDL}>",
      .params = {Param::data("x"), Param::stride("x", 0), Param::data("w"), Param::data("out"),
                 Param::dim("m", ScalarType::kI32), Param::constants_ready()},
      .geometry = geometry,
  }};
  op.choose = choose;
  op.policy = [](const Problem& problem) {
    return problem.dim("m") <= kMaxM ? std::string()
                                     : "m is above MAX_M = " + std::to_string(kMaxM);
  };
  return op;
}

}  // namespace kiln::registry::ops
