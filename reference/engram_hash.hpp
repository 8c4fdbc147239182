#pragma once

/// \file
/// N-gram hash ids and the histories that they look back into, token by token.

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::reference {

/// What floor(h / p) is estimated with: floor((2^64 - 1) / p). Asserts 1 <= p < 2^63.
std::uint64_t reciprocal_of(std::uint64_t p) noexcept;

/// h mod p from the reciprocal of p, for every h; the steps of
/// kernel_templates/prelude/remainder.cuh, where the proof stands.
std::uint64_t remainder(std::uint64_t h, std::uint64_t p, std::uint64_t reciprocal) noexcept;

/// The tables of one model.
struct EngramTables {
  std::int64_t layers = 0;  ///< L
  std::int64_t order = 0;   ///< N
  std::int64_t heads = 0;   ///< H
  std::vector<std::int64_t> token_map{};
  std::vector<std::int64_t> multipliers{};  ///< [L, N]
  std::vector<std::int64_t> primes{};       ///< [L, N - 1, H]
  std::vector<std::int64_t> offsets{};      ///< [L, (N - 1) * H]
  std::int64_t pad_id = 0;
};

using Integers = std::optional<std::vector<std::int64_t>>;

/// One step. The mode is DECODE, unless block (VERIFY), row and starts (EXTEND), or qo_indptr
/// (RAGGED_VERIFY) are given.
struct EngramStep {
  std::vector<std::int64_t> input_ids{};
  std::vector<std::int64_t> positions{};
  std::vector<std::int32_t> history{};  ///< [rows, N - 1], oldest first
  std::optional<std::int64_t> num_real{};
  Integers req_slots{};
  std::optional<std::int64_t> block{};
  Integers row{};
  Integers starts{};
  Integers qo_indptr{};
  std::optional<std::int64_t> image_token_id{};
  std::int64_t mm_pad_shift = 0;  ///< With an image token id.
};

struct EngramHashes {
  std::vector<std::int64_t> ids{};     ///< [T, L, (N - 1) * H]
  std::vector<std::int32_t> tokens{};  ///< [T, N]
};

EngramHashes engram_hash_ids(const EngramTables& tables, const EngramStep& step);

/// `history` after a decode step: tokens of the step where out_cache_loc is not 0.
std::vector<std::int32_t> commit_decoded(std::int64_t order, std::vector<std::int32_t> history,
                                         const std::vector<std::int32_t>& tokens,
                                         const std::vector<std::int64_t>& req_slots,
                                         const std::vector<std::int64_t>& out_cache_loc);

/// `history`, rows of `length`, after a verify step: of each request, the last of the old row
/// followed by the first commit_lens of its row of verify_ids.
std::vector<std::int32_t> engram_commit_history(std::int64_t length,
                                                std::vector<std::int32_t> history,
                                                const std::vector<std::int64_t>& verify_ids,
                                                const std::vector<std::int64_t>& req_slots,
                                                const std::vector<std::int64_t>& commit_lens);

}  // namespace kiln::reference
