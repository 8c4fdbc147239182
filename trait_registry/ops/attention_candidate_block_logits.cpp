#include <algorithm>

#include <kiln/op.hpp>

#include "trait_registry/ops/candidate_launch.hpp"

namespace kiln::registry::ops {
namespace {

bool is_source(const Problem& problem) {
  return !problem.present("published");
}

// The workspace: a threshold of 8 bytes for each row, then scores. Their number follows from
// block_size, which no Problem holds; there are as many as positions at most.
std::int64_t scores_offset(const Problem& problem) {
  return round_up(problem.dim("rows") * 8, 256);
}

std::size_t workspace(const Problem& problem, const Traits&) {
  if (!is_source(problem)) {
    return 0;
  }
  return static_cast<std::size_t>(scores_offset(problem) +
                                  problem.dim("rows") * problem.dim("width") * 4);
}

Param offset_param() {
  return Param::computed("offset of the scores", scores_offset);
}

// A grid of no CTA where the call is of the other form.
template <class Make>
auto only(bool source, const Make& make) {
  return [=](const Problem& problem, const Traits&) {
    Geometry geometry = make(problem);
    if (is_source(problem) != source) {
      geometry.grid.x = 0;
    }
    return geometry;
  };
}

constexpr std::int64_t kConsumeThreads = 256;

// Positions of a CTA in the form with `published`.
std::int64_t consume_chunk(const Problem& problem) {
  constexpr std::int64_t kMostCtas = 65535;
  return std::max<std::int64_t>(8 * kConsumeThreads,
                                round_up(ceil_div(problem.dim("width"), kMostCtas), 4));
}

KernelSpec scores_kernel() {
  return {.name = "scores",
          .source = "attention/candidate_block_scores.cuh",
          .instantiation = "kiln::candidate_block_scores<{PDL}>",
          .params = candidate_scores_params(Param::workspace(), offset_param()),
          .geometry = only(true, candidate_scores_geometry)};
}

KernelSpec threshold_kernel() {
  return {.name = "threshold",
          .source = "attention/candidate_block_logits.cuh",
          .instantiation = "kiln::candidate_threshold<{PDL}>",
          .params = {Param::workspace(), offset_param(), Param::scalar("topk_blocks"),
                     Param::scalar("block_size"), Param::dim("width", ScalarType::kI32)},
          .geometry = only(true, [](const Problem& problem) {
            Geometry geometry = candidate_select_geometry(problem, problem.dim("width"));
            geometry.grid.x = problem.dim("width") == 0 ? 0 : geometry.grid.x;
            return geometry;
          })};
}

KernelSpec publish_kernel() {
  return {.name = "publish",
          .source = "attention/candidate_block_logits.cuh",
          .instantiation = "kiln::candidate_publish<{PDL}>",
          .params = {Param::workspace(), offset_param(), Param::data("keep"),
                     Param::scalar("block_size"), Param::dim("width", ScalarType::kI32)},
          .geometry = only(true, candidate_mask_geometry)};
}

KernelSpec consume_kernel() {
  return {.name = "consume",
          .source = "attention/candidate_block_logits.cuh",
          .instantiation = "kiln::candidate_consume<{PDL}>",
          .params = {Param::data("logits"), Param::stride("logits", 0), Param::data("seq_lens"),
                     Param::data("published"), Param::data("out"),
                     Param::dim("width", ScalarType::kI32),
                     Param::computed("positions of a CTA", consume_chunk, ScalarType::kI32),
                     wide_seq_lens()},
          .geometry = only(false, [](const Problem& problem) {
            return candidate_row_geometry(problem, consume_chunk(problem), kConsumeThreads);
          })};
}

std::string contract(const Problem& problem) {
  return is_source(problem) == problem.present("keep")
             ? std::string()
             : "either published or keep is given, found " +
                   std::string(problem.present("keep") ? "both" : "neither");
}

std::string scalar_contract(const Problem&, const Scalars& scalars) {
  const std::string wrong = at_least_one(scalars, "topk_blocks");
  return wrong.empty() ? at_least_one(scalars, "block_size") : wrong;
}

}  // namespace

Op attention_candidate_block_logits() {
  Op op;
  op.name = "candidate_block_logits";
  op.family = "attention";
  op.summary = "Masked logits, and which positions lie in the blocks with the greatest of them";
  op.args = {
      candidate_logits(),
      candidate_seq_lens(),
      candidate_topk_blocks(),
      candidate_block_size(),
      candidate_tensor("published", "A mask that is there already: nothing is selected.",
                       DType::kBool, {"rows", "width"}, Access::kRead),
      candidate_tensor("out", "The logits, -inf where not visible or not published.", DType::kF32,
                       {"rows", "width"}, Access::kWrite),
      candidate_tensor("keep", "Without published: the mask of the selected blocks.", DType::kBool,
                       {"rows", "width"}, Access::kWrite),
  };
  op.args[4].optional = true;
  op.args[6].optional = true;
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {scores_kernel(), threshold_kernel(), publish_kernel(), consume_kernel()};
  op.contract = contract;
  op.scalar_contract = scalar_contract;
  op.workspace = workspace;
  return op;
}

}  // namespace kiln::registry::ops
