#pragma once

/// \file
/// engram_hash_ids and engram_hash_ids_and_commit: random tables and steps, and calls of them.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "reference/engram_hash.hpp"
#include "tests/gpu/support/cuda.hpp"
#include "tests/gpu/support/integers.hpp"

namespace kiln::gpu {

/// Which inputs are int64: bits of input_ids, positions, token_map, req_slots, row, starts,
/// qo_indptr, out_cache_loc, from the lowest.
using Widths = unsigned;
inline constexpr Widths kAllWide = 0xFF;

reference::EngramTables random_tables(std::int64_t layers, std::int64_t order, std::int64_t heads,
                                      std::uint64_t seed = 1);

enum class HashMode { kDecode, kVerify, kExtend, kRagged };

struct StepOptions {
  HashMode mode = HashMode::kDecode;
  bool slots = true;
  bool images = false;
  std::int64_t mm_pad_shift = 4300;  ///< Of images: about one token of five is one.
  bool pads = false;                 ///< num_real below the number of tokens.
  std::int64_t requests = 0;  ///< Of EXTEND and RAGGED_VERIFY; 0: about a quarter of the tokens.
};

/// Token ids lie in the map and around it; runs of EXTEND and RAGGED_VERIFY are of all lengths,
/// some of them empty, and RAGGED_VERIFY leaves a tail of padding.
reference::EngramStep random_step(const reference::EngramTables& tables, std::int64_t t,
                                  const StepOptions& options, std::uint64_t seed = 1);

/// A step on the device. Equal shapes and options make equal sizes, so that the inputs of another
/// step can replace these.
class HashCall {
 public:
  /// With out_cache_loc, a call of engram_hash_ids_and_commit.
  HashCall(const reference::EngramTables& tables, const reference::EngramStep& step, Widths widths,
           bool reciprocals, std::vector<std::int64_t> out_cache_loc = {});

  void set_step(const reference::EngramStep& step);
  void poison(std::uint8_t byte) const;
  /// `primes`: in place of the tables', to be read late.
  void launch(bool pdl = true, const std::string& op = "", const Buffer* primes = nullptr) const;
  /// Empty when every bit of ids, tokens and history is right and nothing else was written.
  std::string difference() const;

  const Integers& input_ids() const { return input_ids_; }
  const GuardedBuffer& ids() const { return ids_; }
  const Buffer& primes() const { return primes_; }
  const Buffer& reciprocals() const { return reciprocals_; }

 private:
  std::vector<Arg> args(const Buffer* primes) const;
  std::string name() const;

  reference::EngramTables tables_;
  reference::EngramStep step_;
  std::vector<std::int64_t> loc_values_;
  Integers input_ids_, positions_, token_map_;
  GuardedBuffer history_;
  Buffer multipliers_, primes_, offsets_, reciprocals_;
  Integers slots_, row_, starts_, indptr_, loc_;
  GuardedBuffer ids_, tokens_;
  bool has_reciprocals_;
  mutable std::vector<Tensor> tensors_;  // Of the call that is being made.
};

/// Eagerly, and replayed with another step of the same options.
std::string run_hash(const reference::EngramTables& tables, std::int64_t t,
                     const StepOptions& options, bool reciprocals, bool pdl = true,
                     Widths widths = kAllWide, const std::string& op = "");

}  // namespace kiln::gpu
