#include <algorithm>

#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

constexpr std::int64_t kFewThreads = 32;
constexpr std::int64_t kSomeThreads = 64;
constexpr std::int64_t kManyThreads = 256;

ArgSpec strided(const char* name, const char* summary, std::vector<DType> dtypes,
                const char* column, Access access) {
  ArgSpec arg;
  arg.name = name;
  arg.summary = summary;
  arg.dtypes = std::move(dtypes);
  arg.shape = {"rows", column};
  arg.layout = Layout::kRowStrided;
  arg.alignment = 1;
  arg.access = access;
  return arg;
}

// Narrow CTAs spread few positions over all SMs; for many, the CTAs themselves would cost more. It
// changes the time, never a bit.
void choose(const Problem& problem, Traits& traits) {
  const std::int64_t of_an_sm =
      problem.dim("rows") * problem.dim("k") / multiprocessors(problem.target());
  traits.set("THREADS", of_an_sm <= kFewThreads        ? kFewThreads
                        : of_an_sm <= 2 * kSomeThreads ? kSomeThreads
                                                       : kManyThreads);
}

Geometry geometry(const Problem& problem, const Traits& traits) {
  Geometry geometry;
  geometry.grid.x = static_cast<std::uint32_t>(problem.dim("rows"));
  geometry.grid.y = static_cast<std::uint32_t>(ceil_div(problem.dim("k"), traits["THREADS"]));
  geometry.block.x = static_cast<std::uint32_t>(traits["THREADS"]);
  return geometry;
}

std::int64_t wide_flags(const Problem& problem) {
  std::int64_t flags = 0;
  std::int64_t bit = 1;
  for (const char* const arg : {"indices", "page_indices", "raw_indices"}) {
    flags |= problem.present(arg) && problem.dtype(arg) == DType::kI64 ? bit : 0;
    bit *= 2;
  }
  return flags;
}

// One grid axis of CTAs of a row.
std::string contract(const Problem& problem) {
  constexpr std::int64_t kMost = 65535 * kManyThreads;
  const std::int64_t k = problem.dim("k");
  return k <= kMost ? wrong_rows(problem)
                    : "k must be at most " + std::to_string(kMost) + ", found " + std::to_string(k);
}

std::string scalar_contract(const Problem& problem, const Scalars& scalars) {
  const std::int64_t page_size = scalars.integer("page_size");
  const std::int64_t width = problem.dim("width");
  const std::int64_t pages = problem.dim("p");
  if (page_size < 1) {
    return "page_size must be at least 1, found " + std::to_string(page_size);
  }
  return pages >= ceil_div(width, page_size)
             ? std::string()
             : "the pages of a row must hold its width: p * page_size must be at least width = " +
                   std::to_string(width) + ", found " + std::to_string(pages) + " * " +
                   std::to_string(page_size);
}

}  // namespace

Op attention_filter_topk_pages() {
  const std::vector<DType> either = {DType::kI32, DType::kI64};
  Op op;
  op.name = "filter_topk_pages";
  op.family = "attention";
  op.summary = "Selected positions as positions in pages; -1 for what is outside or scores -inf";
  op.args = {
      strided("scores", "Of each position.", {DType::kF32}, "width", Access::kRead),
      strided("indices", "The selected positions.", either, "k", Access::kRead),
      strided("page_table", "The page of every page_size positions.", {DType::kI32}, "p",
              Access::kRead),
      strided("page_indices", "The positions in their pages, in the order of indices.", either, "k",
              Access::kWrite),
      {.name = "page_size", .summary = "Positions of a page.", .scalar = ScalarType::kI32},
      strided("raw_indices", "The indices that are valid, -1 for the others.", either, "k",
              Access::kWrite),
  };
  op.args.back().optional = true;
  op.traits = {
      {.name = "THREADS",
       .summary = "threads of a CTA, of which each takes one position",
       .domain = {kFewThreads, kSomeThreads, kManyThreads}},
      TraitSpec::boolean("PDL", "programmatic dependent launch"),
  };
  op.kernels = {{
      .name = "filter",
      .source = "attention/filter_topk_pages.cuh",
      .instantiation = "kiln::filter_topk_pages<{THREADS}, {PDL}>",
      .params = {Param::data("scores"), Param::stride("scores", 0), Param::data("indices"),
                 Param::stride("indices", 0), Param::data("page_table"),
                 Param::stride("page_table", 0), Param::data("page_indices"),
                 Param::stride("page_indices", 0), Param::data("raw_indices"),
                 Param::stride("raw_indices", 0), Param::scalar("page_size"),
                 Param::dim("k", ScalarType::kI32), Param::dim("width", ScalarType::kI32),
                 Param::computed("which arrays are i64", wide_flags, ScalarType::kI32)},
      .geometry = geometry,
  }};
  op.choose = choose;
  op.contract = contract;
  op.scalar_contract = scalar_contract;
  return op;
}

}  // namespace kiln::registry::ops
