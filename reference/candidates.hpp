#pragma once

/// \file
/// Blocks of positions as candidates: their scores, the selection of the best, and its mask.

#include <cstdint>
#include <vector>

namespace kiln::reference {

/// Rows of `width` positions in blocks of `block`.
struct BlockShape {
  std::int64_t width;
  std::int64_t block;

  std::int64_t blocks() const { return (width + block - 1) / block; }
};

struct RowLens {
  std::vector<std::int32_t> nblocks;
  std::vector<std::int32_t> valid;
};

/// For each length: the blocks that hold it, and the positions in `topk` of them, the last one
/// included. A negative length counts as 0.
RowLens candidate_row_lens(const std::vector<std::int64_t>& seq_lens, std::int64_t topk,
                           std::int64_t block);

struct BlockScores {
  std::vector<float> out;     ///< [rows, width]
  std::vector<float> scores;  ///< [rows, blocks]
};

/// out: the logits, [rows, width], -inf at and past each row's length. scores: the maximum of each
/// block of them, where NaN is above all and -0 below +0; +inf for the block of the last visible
/// position.
BlockScores candidate_block_scores(const std::vector<float>& logits,
                                   const std::vector<std::int64_t>& seq_lens,
                                   const BlockShape& shape);

struct SelectedBlocks {
  std::vector<std::int32_t> indices;  ///< [rows, k], ascending in a row.
  std::vector<float> values;          ///< [rows, k]
};

/// The k greatest of each row of `blocks` scores: NaN above +inf, ties toward the lower index.
SelectedBlocks candidate_select_blocks(const std::vector<float>& scores, std::int64_t blocks,
                                       std::int64_t k);

/// [rows, width]: 1 at every position of the selected blocks whose value is above -inf. An index
/// that is none of a block counts for nothing.
std::vector<std::uint8_t> publish_candidate_mask(const SelectedBlocks& selected, std::int64_t k,
                                                 const BlockShape& shape);

/// The logits where visible and published, else -inf.
std::vector<float> candidate_consume(const std::vector<float>& logits,
                                     const std::vector<std::int64_t>& seq_lens,
                                     const std::vector<std::uint8_t>& published,
                                     std::int64_t width);

}  // namespace kiln::reference
