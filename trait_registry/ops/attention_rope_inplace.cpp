#include <algorithm>

#include <kiln/op.hpp>

#include "trait_registry/ops/rope_launch.hpp"
#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

Geometry geometry(const Problem& problem, const Traits&) {
  const std::int64_t heads = problem.dim("heads");
  const std::int64_t threads = std::clamp<std::int64_t>(round_up(heads * 8, 32), 32, 128);
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(problem.dim("rows"));
  geometry.grid.y = static_cast<std::uint32_t>(ceil_div(heads * 8, threads));
  geometry.block.x = static_cast<std::uint32_t>(threads);
  return geometry;
}

// One grid axis of CTAs of 16 heads; no more than q_rope_store takes.
std::string contract(const Problem& problem) {
  constexpr std::int64_t kMostHeads = 262'140;
  const std::int64_t heads = problem.dim("heads");
  return heads > kMostHeads ? "heads must be at most 262140, found " + std::to_string(heads)
                            : rope_contract(problem);
}

}  // namespace

Op attention_rope_inplace() {
  Op op;
  op.name = "rope_inplace";
  op.family = "attention";
  op.summary = "The last 64 of the 512 elements of each head, rotated by position, in place";
  op.args = {
      rope_heads("x", "The heads; only their last 64 elements are read and written.",
                 Access::kReadWrite),
      rope_freqs(),
      rope_positions(),
  };
  op.traits = {
      rope_position_trait(),
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
  op.kernels = {{
      .name = "rotate",
      .source = "attention/rope_inplace.cuh",
      .instantiation = "kiln::rope_inplace<{POSITION}, {PDL}>",
      .params = {Param::data("x"), Param::stride("x", 0), Param::stride("x", 1),
                 Param::data("freqs"), Param::data("positions"),
                 Param::dim("heads", ScalarType::kI32), Param::dim("p", ScalarType::kI32)},
      .geometry = geometry,
  }};
  op.choose = choose_rope_position;
  op.contract = contract;
  return op;
}

}  // namespace kiln::registry::ops
