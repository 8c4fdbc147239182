#include <kiln/op.hpp>

#include "trait_registry/ops/engram_launch.hpp"

namespace kiln::registry::ops {
namespace {

HashLaunch launch_of(const Problem& problem) {
  return HashLaunch(problem);
}

// Requests of the call, where shapes alone say how many; else -1.
std::int64_t requests_of(const Problem& problem) {
  if (problem.present("qo_indptr")) {
    return problem.dim("q") - 1;
  }
  return problem.present("row") ? problem.dim("r") : -1;
}

std::string too_few(const char* what, std::int64_t found, std::int64_t needed) {
  return std::string(what) + ", found " + std::to_string(found) + " for " + std::to_string(needed) +
         " requests";
}

std::string contract(const Problem& problem) {
  if (std::string wrong = hash_contract(problem); !wrong.empty()) {
    return wrong;
  }
  const bool extends = problem.present("row");
  const bool ragged = problem.present("qo_indptr");
  if (extends != problem.present("starts")) {
    return "row and starts come together, found one of them";
  }
  if ((extends ? 1 : 0) + (ragged ? 1 : 0) + (problem.present("block") ? 1 : 0) > 1) {
    return "block, row with starts, and qo_indptr are three modes, found more than one of them";
  }
  if (ragged && problem.dim("q") < 1) {
    return "qo_indptr must have at least one element, found none";
  }
  const std::int64_t requests = requests_of(problem);
  if (ragged && problem.present("req_slots") && problem.dim("r") < requests) {
    return too_few("req_slots must have an element for every request", problem.dim("r"), requests);
  }
  return !problem.present("req_slots") && problem.dim("rows") < requests
             ? too_few("without req_slots, history must have a row for every request",
                       problem.dim("rows"), requests)
             : std::string();
}

// In the modes DECODE and VERIFY, how many requests there are depends on scalars.
std::string scalar_contract(const Problem& problem, const Scalars& scalars) {
  if (std::string wrong = hash_scalar_contract(scalars); !wrong.empty()) {
    return wrong;
  }
  const std::int64_t block = scalars.integer("block", 1);
  if (block < 1) {
    return "block must be at least 1, found " + std::to_string(block);
  }
  const std::int64_t real = scalars.integer("num_real", problem.dim("t"));
  if (real < 0) {
    return "num_real must not be negative, found " + std::to_string(real);
  }
  if (requests_of(problem) >= 0) {
    return {};
  }
  const std::int64_t requests = ceil_div(std::min(real, problem.dim("t")), block);
  const bool slots = problem.present("req_slots");
  const std::int64_t found = problem.dim(slots ? "r" : "rows");
  return found >= requests
             ? std::string()
             : too_few(slots ? "req_slots must have an element for every request"
                             : "without req_slots, history must have a row for every request",
                       found, requests);
}

std::vector<ArgSpec> args() {
  std::vector<ArgSpec> args = hash_args(Access::kRead);
  const auto add = [&](ArgSpec arg) {
    arg.optional = true;
    args.push_back(std::move(arg));
  };
  add(integer_arg("num_real", "Tokens from here on are padding.", true));
  add(index_arg("req_slots", "Row of history of each request; without it, its number.", {"r"}));
  ArgSpec block = integer_arg("block", "VERIFY: tokens of each request.", true);
  block.scalar = ScalarType::kI32;
  add(block);
  add(index_arg("row", "EXTEND: request of each token.", {"t"}));
  add(index_arg("starts", "EXTEND: first token of each request.", {"r"}));
  add(index_arg("qo_indptr", "RAGGED_VERIFY: where each request's tokens begin, and an end.",
                {"q"}));
  add_image_args(args);
  add_hash_outputs(args);
  return args;
}

std::vector<Param> params() {
  std::vector<Param> params;
  for (const char* const tensor :
       {"input_ids", "positions", "history", "token_map", "multipliers", "primes", "offsets",
        "reciprocals", "req_slots", "row", "starts", "qo_indptr"}) {
    params.push_back(Param::data(tensor));
  }
  for (const char* const scalar :
       {"pad_id", "num_real", "block", "image_token_id", "mm_pad_shift"}) {
    params.push_back(Param::scalar(scalar));
  }
  params.push_back(Param::data("ids"));
  params.push_back(Param::data("tokens"));
  add_hash_sizes(params);
  params.push_back(Param::computed(
      "requests of qo_indptr",
      [](const Problem& p) { return p.present("qo_indptr") ? p.dim("q") - 1 : 0; },
      ScalarType::kI32));
  add_hash_spread(params, launch_of);
  return params;
}

}  // namespace

Op embeddings_engram_hash_ids() {
  Op op;
  op.name = "engram_hash_ids";
  op.family = "embeddings";
  op.summary = "Ids of the n-grams that end at each token, by hashing";
  op.args = args();
  op.traits = hash_traits();
  op.traits.push_back(TraitSpec::boolean("PDL", "programmatic dependent launch"));
  op.kernels = {{
      .name = "hash",
      .source = "embeddings/engram_hash_ids.cuh",
      .instantiation = "kiln::engram_hash_ids<{MAX_ORDER}, {RECIPROCALS}, {PDL}>",
      .params = params(),
      .geometry = [](const Problem& problem,
                     const Traits&) { return HashLaunch(problem).geometry(); },
  }};
  op.choose = choose_hash;
  op.contract = contract;
  op.scalar_contract = scalar_contract;
  return op;
}

}  // namespace kiln::registry::ops
