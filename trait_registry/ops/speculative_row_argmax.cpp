#include <algorithm>

#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kBatch = 8;  // Vectors that a thread loads at once.

// How a row is cut into parts, a CTA each (kernel_templates/speculative/row_argmax.cuh): those of a
// cluster, as many as the device has room for in two rounds and as leave each thread two vectors,
// 8 at most where 16 were not tried. A row too long for one, or any where clusters were not tried,
// is cut by itself into as many parts as there is room for at once. It changes the time, never a
// bit.
struct Parts {
  explicit Parts(const Problem& problem) {
    constexpr std::int64_t kMostParts = 65535;
    const std::int64_t most_ctas = problem.target().major == 9 ? 16 : 8;
    const std::int64_t most_of_cluster = most_ctas * kThreads * 32;
    const std::int64_t all = problem.dim("n") / 4 + 1;  // Wherever the row begins.
    const std::int64_t rows = std::max<std::int64_t>(problem.dim("rows"), 1);
    const std::int64_t sms = multiprocessors(problem.target());
    if (problem.target().major != 12 && (all <= most_of_cluster || rows > sms)) {
      while (ctas < most_ctas && rows * ctas * 2 <= 8 * sms && all > 2 * ctas * kThreads) {
        ctas *= 2;
      }
      vectors = ceil_div(all, ctas);
      return;
    }
    const std::int64_t wanted =
        std::clamp<std::int64_t>(4 * sms / rows, 1, ceil_div(all, kBatch * kThreads));
    vectors = ceil_div(all, std::min(wanted, kMostParts));
    count = ceil_div(all, vectors);
  }
  std::int64_t vectors = 1;  ///< Of 4 elements, in a part.
  std::int64_t ctas = 1;     ///< Of a cluster.
  std::int64_t count = 1;    ///< Parts of a row outside clusters.
};

Geometry geometry(const Problem& problem, const Traits&) {
  const Parts parts(problem);
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(problem.dim("rows") * parts.ctas);
  geometry.grid.y = static_cast<std::uint32_t>(parts.count);
  geometry.block.x = static_cast<std::uint32_t>(kThreads);
  geometry.cluster.x = static_cast<std::uint32_t>(parts.ctas);
  return geometry;
}

// A warp for each row; nothing where the first kernel has done it.
Geometry parts_geometry(const Problem& problem, const Traits&) {
  constexpr std::int64_t kMostWarps = 8;
  const std::int64_t rows = problem.dim("rows");
  const std::int64_t warps = std::clamp<std::int64_t>(rows, 1, kMostWarps);
  Geometry geometry;
  geometry.grid.x =
      Parts(problem).count == 1 ? 0 : static_cast<std::uint32_t>(ceil_div(rows, warps));
  geometry.block.x = static_cast<std::uint32_t>(warps * 32);
  return geometry;
}

std::size_t workspace(const Problem& problem, const Traits&) {
  const std::int64_t parts = Parts(problem).count;
  return parts == 1 ? 0 : static_cast<std::size_t>(problem.dim("rows") * parts * 8);
}

}  // namespace

Op speculative_row_argmax() {
  Op op;
  op.name = "row_argmax";
  op.family = "speculative";
  op.summary =
      "Index of the largest element of each row; of the lowest among equals, of a NaN first";
  op.args = {
      {.name = "x",
       .summary = "Rows of n elements, such as logits.",
       .dtypes = {DType::kF32},
       .shape = {"rows", "n"},
       .layout = Layout::kRowStrided,
       .alignment = 4},
      {.name = "out",
       .summary = "The indices.",
       .dtypes = {DType::kI64},
       .shape = {"rows"},
       .alignment = 8,
       .access = Access::kWrite},
  };
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {
      {.name = "argmax",
       .source = "speculative/row_argmax.cuh",
       .instantiation = "kiln::row_argmax<{PDL}>",
       .params = {Param::data("x"), Param::stride("x", 0), Param::workspace(), Param::data("out"),
                  Param::dim("n", ScalarType::kI32),
                  Param::computed(
                      "vectors of a part", [](const Problem& p) { return Parts(p).vectors; },
                      ScalarType::kI32)},
       .geometry = geometry},
      {.name = "parts",
       .source = "speculative/row_argmax.cuh",
       .instantiation = "kiln::row_argmax_parts<{PDL}>",
       .params = {Param::workspace(), Param::data("out"), Param::dim("rows"),
                  Param::computed(
                      "parts of a row", [](const Problem& p) { return Parts(p).count; },
                      ScalarType::kI32)},
       .geometry = parts_geometry}};
  op.contract = [](const Problem& problem) {
    const bool pointless = problem.dim("rows") > 0 && problem.dim("n") == 0;
    return pointless ? std::string("a row must have an element: n must be at least 1, found 0")
                     : wrong_rows(problem);
  };
  op.workspace = workspace;
  return op;
}

}  // namespace kiln::registry::ops
