#include <kiln/op.hpp>

#include "trait_registry/ops/engram_launch.hpp"

namespace kiln::registry::ops {
namespace {

HashLaunch launch_of(const Problem& problem) {
  return HashLaunch(problem);
}

// Requests that a call with `real` tokens that are not padding may look up.
std::int64_t requests_of(const Problem& problem, std::int64_t real, std::int64_t block) {
  if (problem.present("qo_indptr")) {
    return problem.dim("q") - 1;
  }
  return problem.present("row") ? problem.dim("r") : ceil_div(real, block);
}

std::string too_few(const char* what, std::int64_t found, std::int64_t needed) {
  return std::string(what) + ", found " + std::to_string(found) + " for " + std::to_string(needed) +
         " requests";
}

// Empty, or which array has no element for a request. Slots are trusted to lie in the history, in
// which none can lie when it has no row.
std::string wrong_requests(const Problem& problem, std::int64_t requests) {
  const std::int64_t rows = problem.dim("rows");
  if (!problem.present("req_slots")) {
    return rows >= requests
               ? std::string()
               : too_few("without req_slots, history must have a row for every request", rows,
                         requests);
  }
  if (problem.dim("r") < requests) {
    return too_few("req_slots must have an element for every request", problem.dim("r"), requests);
  }
  return rows >= 1 || requests == 0
             ? std::string()
             : too_few("history must have the rows that req_slots name", rows, requests);
}

std::string contract(const Problem& problem) {
  constexpr std::int64_t kMostEnds = std::int64_t{1} << 31;  // Requests are counted in 31 bits.
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
  return !ragged || (problem.dim("q") >= 1 && problem.dim("q") <= kMostEnds)
             ? std::string()
             : "qo_indptr must have between 1 and 2147483648 elements, found " +
                   std::to_string(problem.dim("q"));
}

// How many requests there are depends on scalars, and whether any is looked up.
std::string scalar_contract(const Problem& problem, const Scalars& scalars) {
  if (std::string wrong = hash_scalar_contract(scalars); !wrong.empty()) {
    return wrong;
  }
  const std::int64_t block = scalars.integer("block", 1);
  if (block < 1) {
    return "block must be at least 1, found " + std::to_string(block);
  }
  const std::int64_t tokens = problem.dim("t");
  const std::int64_t num_real = scalars.integer("num_real", tokens);
  if (num_real < 0) {
    return "num_real must not be negative, found " + std::to_string(num_real);
  }
  const std::int64_t real = std::min(num_real, tokens);
  if (real == 0) {
    return {};
  }
  const std::int64_t requests = requests_of(problem, real, block);
  if (problem.present("row") && requests == 0) {
    return "starts must have an element for every request that row names, found none for " +
           std::to_string(real) + " tokens";
  }
  return wrong_requests(problem, requests);
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
