#include <algorithm>
#include <bit>
#include <cmath>

#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

constexpr std::int64_t kLongestMiddleRow = 5120;  ///< By 640 threads, or 320 with two vectors each.
constexpr std::int64_t kThreadsAtOnce = 640;      ///< That a multiprocessor has work enough for.
constexpr std::int64_t kMostStreams = 65535;      ///< One grid axis.

// It changes the time, never a bit. A row that has a multiprocessor to itself is summed up sooner
// by 20 warps, five for each scheduler, than by ten.
void choose(const Problem& problem, Traits& traits) {
  const bool f32 = problem.dtype("x") == DType::kF32;
  const std::int64_t d = problem.dim("d");
  const bool any =
      problem.dtype("kv") != problem.dtype("x") || d > (f32 ? kLongestMiddleRow : kLongestShortRow);
  const bool middle = !any && d <= kLongestMiddleRow;
  const bool many = problem.dim("t") * problem.dim("hc") > multiprocessors(problem.target());
  traits.set("X", f32 && !any ? 1 : 0);
  traits.set("VECTORS", any ? 0 : f32 || (middle && !many) ? 1 : 2);
  traits.set("CTAS", middle && !f32 && many ? 2 : 1);
}

bool exists(const Traits& traits, const Target&) {
  return (traits["X"] == 0 || traits["VECTORS"] == 1) &&
         (traits["CTAS"] == 1 || traits["VECTORS"] == 2);
}

Geometry geometry(const Problem& problem, const Traits& traits) {
  const std::int64_t t = problem.dim("t");
  const std::int64_t hc = problem.dim("hc");
  const std::int64_t d = problem.dim("d");
  const std::int64_t vectors = traits["VECTORS"];
  const std::int64_t threads = vectors == 0 ? round_up(std::min<std::int64_t>(1024, d / 8), 32)
                                            : 32 * ceil_div(ceil_div(d, kSegment), vectors);
  const std::int64_t per_multiprocessor =
      std::max<std::int64_t>(traits["CTAS"], kThreadsAtOnce / threads);
  const std::int64_t at_once =
      std::max<std::int64_t>(1, multiprocessors(problem.target()) * per_multiprocessor / hc);
  Geometry geometry;
  // As many rounds as tokens at once allow, but even ones.
  geometry.grid.x =
      static_cast<std::uint32_t>(t <= at_once ? t : ceil_div(t, ceil_div(t, at_once)));
  geometry.grid.y = static_cast<std::uint32_t>(hc);
  geometry.block.x = static_cast<std::uint32_t>(threads);
  return geometry;
}

std::int64_t scale_bits(const Problem& problem) {
  return std::bit_cast<std::int32_t>(1.0F / std::sqrt(static_cast<float>(problem.dim("d"))));
}

std::int64_t wide(const Problem& problem) {
  std::int64_t bits = 0;
  std::int64_t bit = 1;
  for (const char* const arg : {"x", "kv", "q_weight", "k_weight"}) {
    bits |= problem.dtype(arg) == DType::kF32 ? bit : 0;
    bit *= 2;
  }
  return bits;
}

std::string contract(const Problem& problem) {
  const std::int64_t d = problem.dim("d");
  const std::int64_t hc = problem.dim("hc");
  if (problem.dtype("out") != problem.dtype("x")) {
    return "out must have x's dtype";
  }
  if (d <= 0 || d % 8 != 0) {
    return "d must be a positive multiple of 8, found " + std::to_string(d);
  }
  return hc >= 1 && hc <= kMostStreams
             ? std::string()
             : "hc must be between 1 and 65535, found " + std::to_string(hc);
}

ArgSpec weight(const char* name, const char* summary) {
  return {.name = name,
          .summary = summary,
          .dtypes = {DType::kBF16, DType::kF32},
          .shape = {"hc", "d"},
          .constant = true};
}

}  // namespace

Op embeddings_fused_engram_gate() {
  Op op;
  op.name = "fused_engram_gate";
  op.family = "embeddings";
  op.summary = "x + sigmoid(signed sqrt of the scaled product of rms norms of x and key) * value";
  op.args = {
      {.name = "x",
       .summary = "The streams of each token; d is a multiple of 8.",
       .dtypes = {DType::kBF16, DType::kF32},
       .shape = {"t", "hc", "d"}},
      {.name = "kv",
       .summary = "A key for each stream, then one value.",
       .dtypes = {DType::kBF16, DType::kF32},
       .shape = {"t",
                 Dim::derived("(hc+1)*d",
                              [](const Problem& p) { return (p.dim("hc") + 1) * p.dim("d"); })}},
      weight("q_weight", "Weights of the norm of x."),
      weight("k_weight", "Weights of the norm of the keys."),
      {.name = "eps", .summary = "Added to the mean squares.", .scalar = ScalarType::kF32},
      {.name = "clamp",
       .summary = "Least size of the product whose root is taken.",
       .scalar = ScalarType::kF32},
      {.name = "out",
       .summary = "The streams after it, of x's dtype.",
       .dtypes = {DType::kBF16, DType::kF32},
       .shape = {"t", "hc", "d"},
       .access = Access::kWrite},
  };
  op.traits = {
      TraitSpec::choice("X", "element type of x, kv and out, unless VECTORS is 0",
                        {"kiln::bf16", "float"}),
      {.name = "VECTORS",
       .summary = "vectors of 8 elements that one thread holds; 0: any types, rows are read twice",
       .domain = {0, 1, 2}},
      TraitSpec::integers("CTAS", "CTAs that a multiprocessor has room for", 1, 2),
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
  op.kernels = {{
      .name = "gate",
      .source = "embeddings/fused_engram_gate.cuh",
      .instantiation = "kiln::fused_engram_gate<{X}, {VECTORS}, {CTAS}, {PDL}>",
      .params = {Param::data("x"), Param::data("kv"), Param::data("q_weight"),
                 Param::data("k_weight"), Param::data("out"), Param::scalar("eps"),
                 Param::scalar("clamp"), Param::dim("t", ScalarType::kI32),
                 Param::dim("hc", ScalarType::kI32), Param::dim("d", ScalarType::kI32),
                 Param::computed("the bits of 1 / sqrt(d)", scale_bits, ScalarType::kI32),
                 Param::computed("which arrays are f32", wide, ScalarType::kI32),
                 Param::constants_ready()},
      .geometry = geometry,
  }};
  op.choose = choose;
  op.exists = exists;
  op.contract = contract;
  return op;
}

}  // namespace kiln::registry::ops
