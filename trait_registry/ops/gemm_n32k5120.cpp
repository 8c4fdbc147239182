#include <array>
#include <cstdint>
#include <limits>

#include <kiln/op.hpp>

namespace kiln::registry::ops {
namespace {

constexpr int kMaxM = 32;  // Beyond it a library GEMM is the better choice.

// With N_SPLIT = 1 a CTA has one column, which all of its threads share.
constexpr std::uint32_t kThreads = 320;
constexpr std::uint32_t kColumnTiles = 32;

// How rows and columns are spread is free: it changes the time, never a bit.
struct Tile {
  std::int64_t up_to_m;
  int m_split;
  int n_split;
};
constexpr std::array kTiles = {
    Tile{4, 1, 1},
    Tile{8, 2, 1},
    Tile{std::numeric_limits<std::int64_t>::max(), 4, 1},
};

void choose(const Problem& problem, Traits& traits) {
  for (const Tile& tile : kTiles) {
    if (problem.dim("m") <= tile.up_to_m) {
      traits.set("M_SPLIT", tile.m_split).set("N_SPLIT", tile.n_split);
      return;
    }
  }
}

Geometry geometry(const Problem& problem, const Traits& traits) {
  const std::int64_t rows = traits["M_SPLIT"];
  const auto row_tiles = static_cast<std::uint32_t>((problem.dim("m") + rows - 1) / rows);
  const auto column_tiles = kColumnTiles / static_cast<std::uint32_t>(traits["N_SPLIT"]);
  return {.grid = {row_tiles, column_tiles}, .block = {kThreads}};
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
      {.name = "N_SPLIT", .summary = "columns that one CTA computes", .domain = {1, 2, 4}},
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
  op.kernels = {{
      .name = "gemm",
      .source = "gemm/n32k5120_gemm_bf16.cuh",
      .instantiation = "kiln::n32k5120_gemm_bf16<{M_SPLIT}, {N_SPLIT}, {PDL}>",
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
