#include <kiln/op.hpp>

#include "trait_registry/ops/engram_launch.hpp"

namespace kiln::registry::ops {
namespace {

// The geometry and the kernel's parameters agree on whether one CTA has all tokens.
HashLaunch launch_of(const Problem& problem) {
  HashLaunch launch(problem);
  if (launch.fits_one_cta()) {
    launch.use_one_cta();
  }
  return launch;
}

Geometry commit_geometry(const Problem& problem, const Traits& traits) {
  constexpr std::int64_t kThreads = 256;
  Geometry geometry;
  geometry.grid.x =
      traits["COMMITS"] != 0
          ? 0
          : static_cast<std::uint32_t>(ceil_div(problem.dim("t") * HashLaunch::kLanes, kThreads));
  geometry.block.x = kThreads;
  return geometry;
}

std::vector<ArgSpec> args() {
  std::vector<ArgSpec> args = hash_args(Access::kReadWrite);
  args.push_back(
      index_arg("req_slots", "Row of history of each token; distinct of live ones.", {"t"}));
  args.push_back(index_arg("out_cache_loc", "0 where the history's row stays.", {"t"}));
  add_image_args(args);
  add_hash_outputs(args);
  return args;
}

std::vector<Param> params() {
  std::vector<Param> params;
  for (const char* const tensor :
       {"input_ids", "positions", "history", "token_map", "multipliers", "primes", "offsets",
        "reciprocals", "req_slots", "out_cache_loc"}) {
    params.push_back(Param::data(tensor));
  }
  for (const char* const scalar : {"pad_id", "image_token_id", "mm_pad_shift"}) {
    params.push_back(Param::scalar(scalar));
  }
  params.push_back(Param::data("ids"));
  params.push_back(Param::data("tokens"));
  add_hash_sizes(params);
  add_hash_spread(params, launch_of);
  return params;
}

}  // namespace

Op embeddings_engram_hash_ids_and_commit() {
  Op op;
  op.name = "engram_hash_ids_and_commit";
  op.family = "embeddings";
  op.summary = "engram_hash_ids of one decode step, whose tokens then enter the histories";
  op.args = args();
  op.traits = hash_traits();
  op.traits.push_back(TraitSpec::boolean("COMMITS", "one CTA has all tokens and writes histories"));
  op.traits.push_back(TraitSpec::boolean("PDL", "programmatic dependent launch"));
  op.kernels = {
      {.name = "hash",
       .source = "embeddings/engram_hash_ids_and_commit.cuh",
       .instantiation =
           "kiln::engram_hash_ids_and_commit<{MAX_ORDER}, {RECIPROCALS}, {COMMITS}, {PDL}>",
       .params = params(),
       .geometry = [](const Problem& problem,
                      const Traits&) { return launch_of(problem).geometry(); }},
      {.name = "commit",
       .source = "embeddings/engram_hash_ids_and_commit.cuh",
       .instantiation = "kiln::engram_commit_tokens<{PDL}>",
       .params = {Param::data("tokens"), Param::data("history"), Param::data("req_slots"),
                  Param::data("out_cache_loc"), Param::dim("t", ScalarType::kI32),
                  Param::dim("n", ScalarType::kI32),
                  Param::computed("widths", hash_flags, ScalarType::kI32)},
       .geometry = commit_geometry}};
  op.choose = [](const Problem& problem, Traits& traits) {
    choose_hash(problem, traits);
    traits.set("COMMITS", launch_of(problem).fits_one_cta() ? 1 : 0);
  };
  op.contract = [](const Problem& problem) {
    if (std::string wrong = hash_contract(problem); !wrong.empty()) {
      return wrong;
    }
    const std::int64_t t = problem.dim("t");
    return problem.dim("rows") >= 1 || t == 0
               ? std::string()
               : "history must have the rows that req_slots name, found 0 for " +
                     std::to_string(t) + " tokens";
  };
  op.scalar_contract = [](const Problem&, const Scalars& scalars) {
    return hash_scalar_contract(scalars);
  };
  return op;
}

}  // namespace kiln::registry::ops
