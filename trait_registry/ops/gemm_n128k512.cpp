#include <cstdint>
#include <string>

#include <kiln/op.hpp>

namespace kiln::registry::ops {
namespace {

constexpr int kMaxM = 32;  // Beyond it a library GEMM is the better choice.

// Measured on an H200 (bench/README.md); it changes the time, never a bit.
void choose(const Problem& problem, Traits& traits) {
  const std::int64_t m = problem.dim("m");
  traits.set("M_SPLIT", m <= 16 ? 1 : m <= 128 ? 2 : m <= 512 ? 4 : 8);
  traits.set("ROW_WARPS", m <= 4 ? 1 : 2);
}

Geometry geometry(const Problem& problem, const Traits& traits) {
  const std::int64_t row_warps = traits["ROW_WARPS"];
  const std::int64_t rows = row_warps * traits["M_SPLIT"];
  const auto row_tiles = static_cast<std::uint32_t>((problem.dim("m") + rows - 1) / rows);
  const std::uint32_t column_tiles = row_warps == 1 ? 32 : 16;
  return {.grid = {row_tiles, column_tiles}, .block = {128}};
}

}  // namespace

// The order of summation is the peer's, in vectors of V = 8 elements below sm_100 and V = 16 from
// sm_100 on, so results of the two groups of targets differ in bits.
Op gemm_n128k512() {
  Op op;
  op.name = "n128k512_gemm_bf16";
  op.family = "gemm";
  op.summary = "out[m, 128] = x[m, 512] * w[128, 512]^T in bf16, fp32 sums in the peer's order";
  op.args = {
      {.name = "x",
       .summary = "Activations; each row starts on a 32-byte boundary.",
       .dtypes = {DType::kBF16},
       .shape = {"m", 512},
       .layout = Layout::kRowStrided,
       .alignment = 32},
      {.name = "w",
       .summary = "Weights, one row per output column.",
       .dtypes = {DType::kBF16},
       .shape = {128, 512},
       .alignment = 32,
       .constant = true},
      {.name = "out",
       .summary = "The products, rounded once.",
       .dtypes = {DType::kBF16},
       .shape = {"m", 128},
       .access = Access::kWrite},
  };
  op.traits = {
      TraitSpec::integers("M_SPLIT", "rows that one warp computes", 1, 8),
      TraitSpec::integers("ROW_WARPS", "warps of a CTA that take different rows", 1, 2),
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
  op.kernels = {{
      .name = "gemm",
      .source = "gemm/n128k512_gemm_bf16.cuh",
      .instantiation = "kiln::n128k512_gemm_bf16<{M_SPLIT}, {ROW_WARPS}, {PDL}>",
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
