#include <kiln/op.hpp>

#include "trait_registry/ops/engram_launch.hpp"

namespace kiln::registry::ops {
namespace {

Geometry geometry(const Problem& problem, const Traits&) {
  constexpr std::int64_t kThreads = 128;
  Geometry geometry;
  geometry.grid.x =
      static_cast<std::uint32_t>(ceil_div(problem.dim("r") * HashLaunch::kLanes, kThreads));
  geometry.block.x = kThreads;
  return geometry;
}

std::int64_t flags(const Problem& problem) {
  std::int64_t bits = 0;
  std::int64_t bit = 1;
  for (const char* const arg : {"verify_ids", "req_slots", "commit_lens"}) {
    bits |= problem.dtype(arg) == DType::kI64 ? bit : 0;
    bit *= 2;
  }
  return bits;
}

}  // namespace

Op embeddings_engram_commit_history() {
  Op op;
  op.name = "engram_commit_history";
  op.family = "embeddings";
  op.summary = "Histories take in the accepted tokens of a verify step";
  op.args = {
      {.name = "history",
       .summary = "The last tokens of each request, oldest first; 1 to 7 of them.",
       .dtypes = {DType::kI32},
       .shape = {"rows", "k"},
       .alignment = 1,
       .access = Access::kReadWrite},
      index_arg("verify_ids", "The tokens that were verified.", {"r", "w"}),
      index_arg("req_slots", "Row of history of each request; distinct.", {"r"}),
      index_arg("commit_lens", "How many of them are accepted; taken as 0 to w.", {"r"}),
  };
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {{
      .name = "commit",
      .source = "embeddings/engram_commit_history.cuh",
      .instantiation = "kiln::engram_commit_history<{PDL}>",
      .params = {Param::data("history"), Param::data("verify_ids"), Param::data("req_slots"),
                 Param::data("commit_lens"), Param::dim("r", ScalarType::kI32),
                 Param::dim("k", ScalarType::kI32), Param::dim("w", ScalarType::kI32),
                 Param::computed("widths", flags, ScalarType::kI32)},
      .geometry = geometry,
  }};
  op.contract = [](const Problem& problem) {
    const std::int64_t k = problem.dim("k");
    if (k < 1 || k > 7) {
      return "k must be between 1 and 7, found " + std::to_string(k);
    }
    return problem.dim("rows") >= problem.dim("r")
               ? std::string()
               : "history must have a row for each of the " + std::to_string(problem.dim("r")) +
                     " distinct slots, found " + std::to_string(problem.dim("rows"));
  };
  return op;
}

}  // namespace kiln::registry::ops
