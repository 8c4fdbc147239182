#include "reference/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace kiln::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// NaN above all; zeros of both signs are equal.
bool is_greater(float a, float b) {
  return std::isnan(a) ? !std::isnan(b) : a > b;
}

float larger(float a, float b) {
  if (a == 0 && b == 0) {
    return std::signbit(a) ? b : a;
  }
  return is_greater(b, a) ? b : a;
}

std::int64_t visible(std::int64_t length, std::int64_t width) {
  return std::clamp<std::int64_t>(length, 0, width);
}

}  // namespace

RowLens candidate_row_lens(const std::vector<std::int64_t>& seq_lens, std::int64_t topk,
                           std::int64_t block) {
  RowLens lens;
  for (const std::int64_t length : seq_lens) {
    const std::int64_t nblocks = length > 0 ? (length - 1) / block + 1 : 0;
    const std::int64_t valid =
        length > 0 ? block * (std::min(nblocks, topk) - 1) + (length - 1) % block + 1 : 0;
    lens.nblocks.push_back(static_cast<std::int32_t>(nblocks));
    lens.valid.push_back(static_cast<std::int32_t>(valid));
  }
  return lens;
}

BlockScores candidate_block_scores(const std::vector<float>& logits,
                                   const std::vector<std::int64_t>& seq_lens,
                                   const BlockShape& shape) {
  BlockScores result;
  result.out = logits;
  result.scores.assign(seq_lens.size() * at(shape.blocks()), -kInfinity);
  float* row = result.out.data();
  float* scores = result.scores.data();
  for (const std::int64_t seq_len : seq_lens) {
    const std::int64_t length = visible(seq_len, shape.width);
    for (std::int64_t i = 0; i < length; ++i) {
      float& score = scores[i / shape.block];
      score = larger(score, row[i]);
    }
    std::fill(row + length, row + shape.width, -kInfinity);
    if (length > 0) {
      scores[(length - 1) / shape.block] = kInfinity;
    }
    row += shape.width;
    scores += shape.blocks();
  }
  return result;
}

SelectedBlocks candidate_select_blocks(const std::vector<float>& scores, std::int64_t blocks,
                                       std::int64_t k) {
  SelectedBlocks selected;
  std::vector<std::int32_t> order(at(blocks));
  for (std::size_t row = 0; blocks > 0 && row < scores.size() / at(blocks); ++row) {
    const float* const values = scores.data() + row * at(blocks);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return is_greater(values[a], values[b]);
    });
    std::sort(order.begin(), order.begin() + k);
    for (std::int64_t i = 0; i < k; ++i) {
      selected.indices.push_back(order[at(i)]);
      selected.values.push_back(values[order[at(i)]]);
    }
  }
  return selected;
}

std::vector<std::uint8_t> publish_candidate_mask(const SelectedBlocks& selected, std::int64_t k,
                                                 const BlockShape& shape) {
  const std::size_t rows = k > 0 ? selected.indices.size() / at(k) : 0;
  std::vector<std::uint8_t> keep(rows * at(shape.width), 0);
  for (std::size_t i = 0; i < selected.indices.size(); ++i) {
    const std::int64_t index = selected.indices[i];
    if (index < 0 || index >= shape.blocks() || !(selected.values[i] > -kInfinity)) {
      continue;
    }
    std::uint8_t* const row = keep.data() + i / at(k) * at(shape.width);
    const std::int64_t begin = index * shape.block;
    std::fill(row + begin, row + std::min(begin + shape.block, shape.width), std::uint8_t{1});
  }
  return keep;
}

std::vector<float> candidate_consume(const std::vector<float>& logits,
                                     const std::vector<std::int64_t>& seq_lens,
                                     const std::vector<std::uint8_t>& published,
                                     std::int64_t width) {
  std::vector<float> out(logits);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto row = i / at(width);
    const auto position = static_cast<std::int64_t>(i % at(width));
    if (position >= visible(seq_lens[row], width) || published[i] == 0) {
      out[i] = -kInfinity;
    }
  }
  return out;
}

}  // namespace kiln::reference
