#include <algorithm>

#include <kiln/op.hpp>

#include "trait_registry/ops/candidate_launch.hpp"

namespace kiln::registry::ops {
namespace {

bool is_source(const Problem& problem) {
  return !problem.present("published");
}

// One kernel, with a cluster for each row, does all while there is room for the clusters of all
// rows at once, and while a CTA's blocks, which may be of one position each, fit in its shared
// memory. No clusters on the targets where they were not tried.
struct Source {
  explicit Source(const Problem& problem) {
    constexpr std::int64_t kFew = 4096;  // Positions of a CTA, also the next.
    constexpr std::int64_t kMost = 32'768;
    constexpr std::int64_t kMostCtas = 8;
    const std::int64_t width = problem.dim("width");
    const std::int64_t rows = problem.dim("rows");
    while (ctas < kMostCtas && width > ctas * kFew &&
           rows * ctas * 2 <= clustered_ctas(problem, ctas * 2)) {
      ctas *= 2;
    }
    bytes = round_up(ceil_div(width, ctas), 16) * 4;
    fits = problem.target().major != 12 && width <= ctas * kMost &&
           rows * ctas <= clustered_ctas(problem, ctas);
  }
  std::int64_t ctas = 1;   ///< Of a row.
  std::int64_t bytes = 0;  ///< Of shared memory, for each CTA.
  bool fits = false;
};

enum class Form { kSource, kSteps, kConsume };

Form form(const Problem& problem) {
  if (!is_source(problem)) {
    return Form::kConsume;
  }
  return Source(problem).fits ? Form::kSource : Form::kSteps;
}

// The workspace of the steps: a threshold of 8 bytes for each row, then scores. Their number
// follows from block_size, which no Problem holds; there are as many as positions at most.
std::int64_t scores_offset(const Problem& problem) {
  return round_up(problem.dim("rows") * 8, 256);
}

std::size_t workspace(const Problem& problem, const Traits&) {
  if (form(problem) != Form::kSteps) {
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
auto only(Form wanted, const Make& make) {
  return [=](const Problem& problem, const Traits&) {
    Geometry geometry = make(problem);
    if (form(problem) != wanted || problem.dim("width") == 0) {
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

KernelSpec source_kernel() {
  return {.name = "source",
          .source = "attention/candidate_source.cuh",
          .instantiation = "kiln::candidate_source<{PDL}>",
          .params = {Param::data("logits"), Param::stride("logits", 0), Param::data("seq_lens"),
                     Param::data("out"), Param::data("keep"), Param::scalar("topk_blocks"),
                     Param::scalar("block_size"), Param::dim("width", ScalarType::kI32),
                     wide_seq_lens()},
          .geometry = only(Form::kSource, [](const Problem& problem) {
            const Source source(problem);
            Geometry geometry;
            geometry.grid.x = static_cast<std::uint32_t>(problem.dim("rows") * source.ctas);
            geometry.block.x = static_cast<std::uint32_t>(kSelectThreads);
            geometry.cluster.x = static_cast<std::uint32_t>(source.ctas);
            geometry.dynamic_shared_bytes = static_cast<std::uint32_t>(source.bytes);
            return geometry;
          })};
}

KernelSpec scores_kernel() {
  return {.name = "scores",
          .source = "attention/candidate_block_scores.cuh",
          .instantiation = "kiln::candidate_block_scores<{PDL}>",
          .params = candidate_scores_params(Param::workspace(), offset_param()),
          .geometry = only(Form::kSteps, candidate_scores_geometry)};
}

KernelSpec threshold_kernel() {
  return {.name = "threshold",
          .source = "attention/candidate_block_logits.cuh",
          .instantiation = "kiln::candidate_threshold<{PDL}>",
          .params = {Param::workspace(), offset_param(), Param::scalar("topk_blocks"),
                     Param::scalar("block_size"), Param::dim("width", ScalarType::kI32)},
          .geometry = only(Form::kSteps, [](const Problem& problem) {
            constexpr std::int64_t kUsualBlock = 8;
            return candidate_select_geometry(problem, ceil_div(problem.dim("width"), kUsualBlock));
          })};
}

KernelSpec publish_kernel() {
  return {.name = "publish",
          .source = "attention/candidate_block_logits.cuh",
          .instantiation = "kiln::candidate_publish<{PDL}>",
          .params = {Param::workspace(), offset_param(), Param::data("keep"),
                     Param::scalar("block_size"), Param::dim("width", ScalarType::kI32)},
          .geometry = only(Form::kSteps, candidate_mask_geometry)};
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
          .geometry = only(Form::kConsume, [](const Problem& problem) {
            return candidate_row_geometry(problem, consume_chunk(problem), kConsumeThreads);
          })};
}

std::string contract(const Problem& problem) {
  return is_source(problem) == problem.present("keep")
             ? wrong_rows(problem)
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
  op.kernels = {source_kernel(), scores_kernel(), threshold_kernel(), publish_kernel(),
                consume_kernel()};
  op.contract = contract;
  op.scalar_contract = scalar_contract;
  op.workspace = workspace;
  return op;
}

}  // namespace kiln::registry::ops
