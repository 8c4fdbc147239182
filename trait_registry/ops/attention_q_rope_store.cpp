#include <algorithm>

#include <kiln/op.hpp>

#include "trait_registry/ops/rope_launch.hpp"
#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

constexpr std::int64_t kMostGroups = 4;
constexpr std::int64_t kPrefillHeads = 4;  // Of a thread.

// A few rows are a wait for memory, which many threads with little to do keep short. From some CTAs
// for each multiprocessor on it is memory throughput, which wants many loads of one thread under
// way. It changes the time, never a bit.
void choose(const Problem& problem, Traits& traits) {
  const std::int64_t ctas = problem.dim("rows") * ceil_div(problem.dim("heads"), 16);
  choose_rope_position(problem, traits);
  traits.set("HEADS", ctas > 4 * multiprocessors(problem.target()) ? kPrefillHeads : 1);
}

Geometry geometry(const Problem& problem, const Traits& traits) {
  const std::int64_t heads = problem.dim("heads");
  const std::int64_t per_thread = traits["HEADS"];
  const std::int64_t groups = std::clamp<std::int64_t>(ceil_div(heads, per_thread), 1, kMostGroups);
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(problem.dim("rows"));
  geometry.grid.y = static_cast<std::uint32_t>(ceil_div(heads, groups * per_thread));
  geometry.block = {64, static_cast<std::uint32_t>(groups), 1};
  return geometry;
}

// One grid axis of groups of heads.
std::string contract(const Problem& problem) {
  constexpr std::int64_t kMostHeads = 65535 * kMostGroups;
  const std::int64_t heads = problem.dim("heads");
  return heads > kMostHeads ? "heads must be at most 262140, found " + std::to_string(heads)
                            : rope_contract(problem);
}

}  // namespace

Op attention_q_rope_store() {
  Op op;
  op.name = "q_rope_store";
  op.family = "attention";
  op.summary = "Heads of 512 elements copied to another place, their last 64 rotated by position";
  op.args = {
      rope_heads("q", "Queries.", Access::kRead),
      rope_heads("out", "Where they go; what lies between its rows is not touched.",
                 Access::kWrite),
      rope_freqs(),
      rope_positions(),
  };
  op.traits = {
      rope_position_trait(),
      {.name = "HEADS",
       .summary = "heads of which one thread takes a vector",
       .domain = {1, kPrefillHeads}},
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
  op.kernels = {{
      .name = "store",
      .source = "attention/q_rope_store.cuh",
      .instantiation = "kiln::q_rope_store<{POSITION}, {HEADS}, {PDL}>",
      .params = {Param::data("q"), Param::stride("q", 0), Param::stride("q", 1), Param::data("out"),
                 Param::stride("out", 0), Param::stride("out", 1), Param::data("freqs"),
                 Param::data("positions"), Param::dim("heads", ScalarType::kI32),
                 Param::dim("p", ScalarType::kI32)},
      .geometry = geometry,
  }};
  op.choose = choose;
  op.contract = contract;
  return op;
}

}  // namespace kiln::registry::ops
