#include <algorithm>

#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {
namespace {

std::int64_t requests(const Problem& problem) {
  return problem.dim("n") - 1;
}

// Two words of each partition and one of each request, or two.
std::int64_t shared_bytes(const Problem& problem, bool tabled) {
  return 4 * ((tabled ? 2 : 1) * requests(problem) + 1 + 2 * (problem.dim("p") + 1));
}

// What a CTA may opt in to, less the kernel's own.
std::int64_t most_shared_bytes(const Target& target) {
  constexpr std::int64_t kOwn = 4352;
  constexpr std::int64_t kKiB = 1024;
  return (target.major > 10 ? 99 : 227) * kKiB - kOwn;
}

// Whether there is room to look up the next partition that begins with a request.
bool tabled(const Problem& problem) {
  return shared_bytes(problem, true) <= most_shared_bytes(problem.target());
}

Geometry geometry(const Problem& problem, const Traits&) {
  const std::int64_t most = std::max(2 * requests(problem), problem.dim("p"));
  Geometry geometry;
  geometry.block.x =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(round_up(most, 32), 64, 1024));
  geometry.dynamic_shared_bytes =
      static_cast<std::uint32_t>(shared_bytes(problem, tabled(problem)));
  return geometry;
}

std::string contract(const Problem& problem) {
  if (requests(problem) < 1) {
    return "num_splits must have one element more than there are requests, at least 2, found " +
           std::to_string(problem.dim("n"));
  }
  if (problem.dim("p") < 1) {
    return "meta must have a row for each partition, at least 1, found 0";
  }
  const std::int64_t most = most_shared_bytes(problem.target());
  // Sizes that would overflow the sum do not fit either.
  const bool fits =
      requests(problem) < most && problem.dim("p") < most && shared_bytes(problem, false) <= most;
  return fits ? std::string()
              : std::to_string(requests(problem)) + " requests and " +
                    std::to_string(problem.dim("p")) +
                    " partitions do not fit in shared memory: 4 bytes for each of the former and 8 "
                    "for each of the latter must be within about " +
                    std::to_string(most);
}

std::string scalar_contract(const Problem& problem, const Scalars& scalars) {
  const std::int64_t block = scalars.integer("block_size_n");
  const std::int64_t overhead = scalars.integer("fixed_overhead_num_blocks");
  const std::int64_t topk = scalars.integer("topk");
  const std::int64_t extra = scalars.integer("extra_topk");
  if (block < 1) {
    return "block_size_n must be at least 1, found " + std::to_string(block);
  }
  if (overhead < 0) {
    return "fixed_overhead_num_blocks must not be negative, found " + std::to_string(overhead);
  }
  if (topk < -1) {
    return "topk must be -1 (dense) or not negative, found " + std::to_string(topk);
  }
  if (extra < 0) {
    return "extra_topk must not be negative, found " + std::to_string(extra);
  }
  return topk != -1 || problem.present("seqlens_k")
             ? std::string()
             : "a dense schedule (topk = -1) needs seqlens_k, found none";
}

ArgSpec lengths(const char* name, const char* summary) {
  ArgSpec arg;
  arg.name = name;
  arg.summary = summary;
  arg.dtypes = {DType::kI32};
  arg.shape = {Dim::derived("n-1", requests)};
  arg.alignment = 1;
  arg.optional = true;
  return arg;
}

ArgSpec scalar(const char* name, const char* summary, bool optional = false) {
  return {.name = name, .summary = summary, .optional = optional, .scalar = ScalarType::kI32};
}

}  // namespace

Op attention_flashmla_sched_meta() {
  Op op;
  op.name = "flashmla_sched_meta";
  op.family = "attention";
  op.summary = "FlashMLA's split-KV schedule: the blocks of requests that each partition takes";
  op.args = {
      {.name = "meta",
       .summary = "Of each partition: begin and end request, begin and end block, begin split, ...",
       .dtypes = {DType::kI32},
       .shape = {"p", 8},
       .access = Access::kWrite},
      {.name = "num_splits",
       .summary = "Splits of the requests before each one, and of all.",
       .dtypes = {DType::kI32},
       .shape = {"n"},
       .alignment = 1,
       .access = Access::kWrite},
      lengths("topk_length", "Of each request when sparse; by itself, topk."),
      lengths("extra_topk_length", "Of each request's extra cache; by itself, extra_topk."),
      lengths("seqlens_k", "Of each request when dense."),
      scalar("block_size_n", "Positions of a block, at least 1."),
      scalar("fixed_overhead_num_blocks", "Blocks that a request costs beside its own."),
      scalar("topk", "Positions of a sparse request; -1: dense."),
      scalar("extra_topk", "Positions of a sparse request's extra cache; 0: none.", true),
  };
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {{
      .name = "schedule",
      .source = "attention/flashmla_sched_meta.cuh",
      .instantiation = "kiln::flashmla_sched_meta<{PDL}>",
      .params = {Param::data("meta"), Param::data("num_splits"), Param::data("seqlens_k"),
                 Param::data("topk_length"), Param::data("extra_topk_length"),
                 Param::scalar("block_size_n"), Param::scalar("fixed_overhead_num_blocks"),
                 Param::scalar("topk"), Param::scalar("extra_topk"),
                 Param::computed("requests", requests, ScalarType::kI32),
                 Param::dim("p", ScalarType::kI32),
                 Param::computed(
                     "whether there is room for a table",
                     [](const Problem& problem) { return tabled(problem) ? 1 : 0; },
                     ScalarType::kI32)},
      .geometry = geometry,
  }};
  op.contract = contract;
  op.scalar_contract = scalar_contract;
  return op;
}

}  // namespace kiln::registry::ops
