#pragma once

/// \file
/// What engram_hash_ids and engram_hash_ids_and_commit share: arguments, traits, the contract, and
/// how tokens and outputs spread over CTAs (kernel_templates/embeddings/engram_hash.cuh).

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {

inline ArgSpec index_arg(const char* name, const char* summary, std::vector<Dim> shape) {
  return {.name = name,
          .summary = summary,
          .dtypes = {DType::kI64, DType::kI32},
          .shape = std::move(shape),
          .alignment = 1};
}

inline ArgSpec integer_arg(const char* name, const char* summary, bool optional) {
  return {.name = name, .summary = summary, .optional = optional, .scalar = ScalarType::kI64};
}

/// A table of int64, constant.
inline ArgSpec hash_table(const char* name, const char* summary, std::vector<Dim> shape) {
  return {.name = name,
          .summary = summary,
          .dtypes = {DType::kI64},
          .shape = std::move(shape),
          .alignment = 1,
          .constant = true};
}

inline Dim order_less_one() {
  return Dim::derived("n-1", [](const Problem& p) { return p.dim("n") - 1; });
}

inline Dim hashes_of_layer() {
  return Dim::derived("(n-1)*h", [](const Problem& p) { return (p.dim("n") - 1) * p.dim("h"); });
}

/// Outputs of one token.
inline std::int64_t hash_outputs(const Problem& problem) {
  return problem.dim("l") * (problem.dim("n") - 1) * problem.dim("h");
}

/// The arguments up to pad_id.
inline std::vector<ArgSpec> hash_args(Access history) {
  ArgSpec map = index_arg("token_map", "Compressed id of each token id, not negative.", {"v"});
  map.constant = true;
  return {
      index_arg("input_ids", "The tokens of the step.", {"t"}),
      index_arg("positions", "Of each token in its sequence.", {"t"}),
      {.name = "history",
       .summary = "The last n - 1 tokens before the step of each request, oldest first.",
       .dtypes = {DType::kI32},
       .shape = {"rows", order_less_one()},
       .alignment = 1,
       .access = history},
      map,
      hash_table("multipliers", "Odd factors of the shifts, 0 first.", {"l", "n"}),
      hash_table("primes", "Divisors of the hashes, at least 1.", {"l", order_less_one(), "h"}),
      hash_table("offsets", "Added to the remainders.", {"l", hashes_of_layer()}),
      integer_arg("pad_id", "Compressed id of what is blocked.", false),
  };
}

inline void add_image_args(std::vector<ArgSpec>& args) {
  args.push_back(integer_arg("image_token_id", "Blocks itself and what is older.", true));
  args.push_back(integer_arg("mm_pad_shift", "Tokens from here on read as the image token.", true));
}

/// The arguments after the images'.
inline void add_hash_outputs(std::vector<ArgSpec>& args) {
  ArgSpec reciprocals = hash_table("reciprocals", "Of the primes, from engram_reciprocals.",
                                   {"l", order_less_one(), "h"});
  reciprocals.optional = true;
  args.push_back(std::move(reciprocals));
  args.push_back({.name = "ids",
                  .summary = "Hash of each n-gram modulo its prime, plus its offset.",
                  .dtypes = {DType::kI64},
                  .shape = {"t", "l", hashes_of_layer()},
                  .alignment = 1,
                  .access = Access::kWrite});
  args.push_back({.name = "tokens",
                  .summary = "Each token and its predecessors, newest first.",
                  .dtypes = {DType::kI32},
                  .shape = {"t", "n"},
                  .alignment = 1,
                  .access = Access::kWrite});
}

inline std::vector<TraitSpec> hash_traits() {
  return {
      {.name = "MAX_ORDER", .summary = "n at most, rounded up", .domain = {4, 8}},
      TraitSpec::boolean("RECIPROCALS", "reciprocals of the primes are given"),
  };
}

inline void choose_hash(const Problem& problem, Traits& traits) {
  traits.set("MAX_ORDER", problem.dim("n") <= 4 ? 4 : 8);
  traits.set("RECIPROCALS", problem.present("reciprocals") ? 1 : 0);
}

/// A bit for each index-like input of int64 and each scalar that is given; the kernel's numbering.
inline std::int64_t hash_flags(const Problem& problem) {
  const auto wide = [&](const char* arg) {
    return problem.present(arg) && problem.dtype(arg) == DType::kI64;
  };
  std::int64_t flags = 0;
  std::int64_t bit = 1;
  for (const bool set :
       {wide("input_ids"), wide("positions"), wide("token_map"), wide("req_slots"), wide("row"),
        wide("starts"), wide("qo_indptr"), problem.present("num_real"), problem.present("block"),
        problem.present("mm_pad_shift"), wide("out_cache_loc")}) {
    flags |= set ? bit : 0;
    bit *= 2;
  }
  return flags;
}

/// How tokens and outputs are spread.
struct HashLaunch {
  explicit HashLaunch(const Problem& problem) {
    constexpr std::int64_t kMostWidth = 256;
    const std::int64_t outputs = hash_outputs(problem);
    const std::int64_t sms = multiprocessors(problem.target());
    tokens = problem.dim("t");
    chunks = ceil_div(outputs, kMostWidth);
    width = ceil_div(outputs, std::max<std::int64_t>(chunks, 1));
    most_tile = kMostThreads / std::max(width, kLanes);
    tile = std::clamp<std::int64_t>(ceil_div(tokens, 2 * sms), 1, most_tile);
    resident = 2 * sms;
  }
  /// Gives one CTA all tokens, where it can have them.
  bool fits_one_cta() const { return chunks == 1 && tokens <= most_tile; }
  void use_one_cta() { tile = std::clamp<std::int64_t>(tokens, 1, most_tile); }

  Geometry geometry() const {
    const std::int64_t tiles = ceil_div(tokens, tile);
    Geometry geometry;
    geometry.grid.x = static_cast<std::uint32_t>(
        tiles <= resident ? tiles : ceil_div(tiles, ceil_div(tiles, resident)));
    geometry.grid.y = static_cast<std::uint32_t>(chunks);
    geometry.block.x = static_cast<std::uint32_t>(round_up(std::max(width, kLanes) * tile, 32));
    return geometry;
  }

  static constexpr std::int64_t kMostThreads = 512;
  static constexpr std::int64_t kLanes = 8;  ///< That look up one token.
  std::int64_t tokens = 0;
  std::int64_t chunks = 1;  ///< CTAs that share the outputs of a tile.
  std::int64_t width = 1;   ///< Outputs of a token that one of them works out.
  std::int64_t tile = 1;    ///< Tokens that a CTA takes at once.
  std::int64_t most_tile = 1;
  std::int64_t resident = 1;  ///< CTAs that the device has room for at once.
};

/// Empty, or what is wrong with the shapes that both ops have.
inline std::string hash_contract(const Problem& problem) {
  constexpr std::int64_t kMostOutputs = std::int64_t{1} << 20;
  const std::int64_t n = problem.dim("n");
  const std::int64_t h = problem.dim("h");
  if (n < 2 || n > 8) {
    return "n must be between 2 and 8, found " + std::to_string(n);
  }
  if (h < 1 || h > 32) {
    return "h must be between 1 and 32, found " + std::to_string(h);
  }
  const std::int64_t l = problem.dim("l");
  if (l < 1 || l > kMostOutputs / ((n - 1) * h)) {
    return "l must be at least 1, and l*(n-1)*h at most 1048576, found l = " + std::to_string(l);
  }
  if (problem.dim("v") < 1) {
    return "v must be at least 1, found 0";
  }
  return problem.present("image_token_id") == problem.present("mm_pad_shift")
             ? std::string()
             : "image_token_id and mm_pad_shift come together, found one of them";
}

inline std::string hash_scalar_contract(const Scalars& scalars) {
  const std::int64_t pad_id = scalars.integer("pad_id");
  return pad_id >= 0 ? std::string()
                     : "pad_id must not be negative, found " + std::to_string(pad_id);
}

/// Parameters of the kernels' tails: sizes, how they are spread, flags.
inline void add_hash_sizes(std::vector<Param>& params) {
  for (const char* const symbol : {"t", "v", "n", "h"}) {
    params.push_back(Param::dim(symbol, ScalarType::kI32));
  }
}
inline void add_hash_spread(std::vector<Param>& params,
                            const std::function<HashLaunch(const Problem&)>& launch) {
  params.push_back(Param::computed("l*(n-1)*h", hash_outputs, ScalarType::kI32));
  params.push_back(Param::computed(
      "outputs of a token by one CTA", [launch](const Problem& p) { return launch(p).width; },
      ScalarType::kI32));
  params.push_back(Param::computed(
      "tokens at once", [launch](const Problem& p) { return launch(p).tile; }, ScalarType::kI32));
  params.push_back(Param::computed("widths and what is given", hash_flags, ScalarType::kI32));
  params.push_back(Param::constants_ready());
}

}  // namespace kiln::registry::ops
