#include <algorithm>
#include <bit>

#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

constexpr std::int64_t kThreads = 256;

// Columns that share a scale. There is no scale for none in a call that the contract refuses.
std::int64_t columns_of_scale(const Problem& problem) {
  const std::int64_t groups = problem.dim("groups");
  return groups == 0 ? 1 : problem.dim("dim") / groups;
}

// -1 where it is no power of two.
std::int64_t columns_logarithm(const Problem& problem) {
  const auto columns = static_cast<std::uint64_t>(columns_of_scale(problem));
  return std::has_single_bit(columns) ? std::countr_zero(columns) : -1;
}

// It changes the time, never a bit. With more vectors than four CTAs of each multiprocessor have
// threads, a thread takes two.
void choose(const Problem& problem, Traits& traits) {
  const std::int64_t vectors = problem.dim("n") * (problem.dim("dim") / 8);
  const std::int64_t threads = 4 * multiprocessors(problem.target()) * kThreads;
  const bool whole = columns_of_scale(problem) % 8 == 0;
  traits.set("WHOLE", whole ? 1 : 0);
  traits.set("VECTORS", whole && vectors > threads ? 2 : 1);
}

bool exists(const Traits& traits, const Target&) {
  return traits["WHOLE"] != 0 || traits["VECTORS"] == 1;
}

Geometry geometry(const Problem& problem, const Traits& traits) {
  const std::int64_t n = problem.dim("n");
  const std::int64_t vectors = problem.dim("dim") / 8;
  const std::int64_t threads = std::min(ceil_div(vectors, traits["VECTORS"]), kThreads);
  // CTAs as small as leaves the device room for all of them at once.
  const std::int64_t most = std::max<std::int64_t>(1, kThreads / threads);
  const std::int64_t rows = std::clamp<std::int64_t>(
      ceil_div(n, 4 * multiprocessors(problem.target())), std::min<std::int64_t>(2, most), most);
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(ceil_div(n, rows));
  geometry.grid.y = static_cast<std::uint32_t>(ceil_div(vectors, threads * traits["VECTORS"]));
  geometry.block = {static_cast<std::uint32_t>(threads), static_cast<std::uint32_t>(rows), 1};
  return geometry;
}

std::string contract(const Problem& problem) {
  constexpr std::int64_t kWidest = std::int64_t{1} << 26;  // One grid axis of vectors.
  const std::int64_t dim = problem.dim("dim");
  const std::int64_t groups = problem.dim("groups");
  if (dim <= 0 || dim % 16 != 0 || dim > kWidest) {
    return "dim must be a positive multiple of 16, at most 67108864, found " + std::to_string(dim);
  }
  return groups > 0 && dim % groups == 0
             ? std::string()
             : "a row of scale must have a scale for every dim / groups columns, so groups must "
               "divide dim = " +
                   std::to_string(dim) + ", found " + std::to_string(groups);
}

std::string scalar_contract(const Problem&, const Scalars& scalars) {
  const std::int64_t row_lo = scalars.integer("row_lo");
  return row_lo >= 0 ? std::string()
                     : "row_lo must not be negative, found " + std::to_string(row_lo);
}

}  // namespace

Op embeddings_engram_gather() {
  Op op;
  op.name = "engram_gather";
  op.family = "embeddings";
  op.summary = "Rows of a table of e4m3 with e8m0 scales, by their numbers, as bf16";
  op.args = {
      {.name = "weight",
       .summary = "The rows of the table that are here; dim is a multiple of 16.",
       .dtypes = {DType::kE4M3, DType::kU8},
       .shape = {"rows", "dim"},
       .host_memory = true},
      {.name = "scale",
       .summary = "Scales in e8m0, one for every dim / groups columns of a row.",
       .dtypes = {DType::kE8M0, DType::kU8},
       .shape = {"rows", "groups"},
       .alignment = 1,
       .host_memory = true},
      {.name = "ids",
       .summary = "Numbers of rows of the whole table; those not here give zeros.",
       .dtypes = {DType::kI64, DType::kI32},
       .shape = {"n"},
       .alignment = 1},
      {.name = "out",
       .summary = "The rows.",
       .dtypes = {DType::kBF16},
       .shape = {"n", "dim"},
       .access = Access::kWrite},
      {.name = "row_lo",
       .summary = "Number in the whole table of the first row that is here.",
       .scalar = ScalarType::kI64},
  };
  op.traits = {
      TraitSpec::integers("VECTORS", "vectors of 8 elements of a row that one thread takes", 1, 2),
      TraitSpec::boolean("WHOLE", "no vector of 8 elements has more than one scale"),
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
  op.kernels = {{
      .name = "gather",
      .source = "embeddings/engram_gather.cuh",
      .instantiation = "kiln::engram_gather<{VECTORS}, {WHOLE}, {PDL}>",
      .params = {Param::data("weight"), Param::data("scale"), Param::data("ids"),
                 Param::data("out"), Param::scalar("row_lo"), Param::dim("rows"),
                 Param::dim("n", ScalarType::kI32), Param::dim("dim", ScalarType::kI32),
                 Param::dim("groups", ScalarType::kI32),
                 Param::computed("columns that share a scale", columns_of_scale, ScalarType::kI32),
                 Param::computed("their logarithm, or -1", columns_logarithm, ScalarType::kI32),
                 Param::computed(
                     "whether ids are i64",
                     [](const Problem& p) { return p.dtype("ids") == DType::kI64 ? 1 : 0; },
                     ScalarType::kI32)},
      .geometry = geometry,
  }};
  op.choose = choose;
  op.exists = exists;
  op.contract = contract;
  op.scalar_contract = scalar_contract;
  return op;
}

}  // namespace kiln::registry::ops
