#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

Geometry geometry(const Problem& problem, const Traits&) {
  constexpr std::int64_t kThreads = 256;
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(ceil_div(problem.dim("count"), kThreads));
  geometry.block.x = kThreads;
  return geometry;
}

ArgSpec table(const char* name, const char* summary, Access access) {
  return {.name = name,
          .summary = summary,
          .dtypes = {DType::kI64},
          .shape = {Dim::leading("count")},
          .alignment = 1,
          .access = access};
}

}  // namespace

Op embeddings_engram_reciprocals() {
  Op op;
  op.name = "engram_reciprocals";
  op.family = "embeddings";
  op.summary = "What makes a remainder by each prime a multiplication; once per model";
  op.args = {
      table("primes", "Of any shape; a prime below 1 is a trap.", Access::kRead),
      table("reciprocals", "floor((2^64 - 1) / prime), the bits of an unsigned number.",
            Access::kWrite),
  };
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {{
      .name = "reciprocals",
      .source = "embeddings/engram_reciprocals.cuh",
      .instantiation = "kiln::engram_reciprocals<{PDL}>",
      .params = {Param::data("primes"), Param::data("reciprocals"),
                 Param::dim("count", ScalarType::kI32)},
      .geometry = geometry,
  }};
  return op;
}

}  // namespace kiln::registry::ops
