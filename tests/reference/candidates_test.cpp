#include "reference/candidates.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Indices = std::vector<std::int32_t>;
using Mask = std::vector<std::uint8_t>;

TEST_CASE("Lengths round up to blocks, and the last selected block counts what it holds") {
  const RowLens lens = candidate_row_lens({0, 1, 8, 9, 17, 24, 1000, -5}, 3, 8);
  CHECK(lens.nblocks == Indices{0, 1, 1, 2, 3, 3, 125, 0});
  CHECK(lens.valid == Indices{0, 1, 8, 9, 17, 24, 24, 0});
  CHECK(candidate_row_lens({1001}, 3, 8).valid == Indices{17});  // One in the row's last block.
  CHECK(candidate_row_lens({7}, 1, 1).valid == Indices{1});
  CHECK(candidate_row_lens({2'147'483'647}, 1 << 30, 8).valid == Indices{2'147'483'647});
}

TEST_CASE("A block scores its maximum, the last visible one +inf and an empty one -inf") {
  const std::vector<float> logits = {1, 2, -1, 5, 3, 4, 9, 9};
  const BlockScores scores = candidate_block_scores(logits, {5}, {8, 2});
  CHECK(scores.out == std::vector<float>{1, 2, -1, 5, 3, -kInf, -kInf, -kInf});
  CHECK(scores.scores == std::vector<float>{2, 5, kInf, -kInf});
  CHECK(candidate_block_scores(logits, {0}, {8, 2}).scores == std::vector<float>(4, -kInf));
  CHECK(candidate_block_scores(logits, {99}, {8, 3}).scores == std::vector<float>{2, 5, kInf});
}

TEST_CASE("NaN carries into a block's score, but not into that of the last visible position") {
  const BlockScores scores = candidate_block_scores({kNan, 1, kNan, 1}, {3}, {4, 2});
  CHECK(std::isnan(scores.scores[0]));
  CHECK(scores.scores[1] == kInf);
  const BlockScores zeros = candidate_block_scores({-0.0F, 0.0F, -0.0F, -0.0F, 1}, {5}, {5, 2});
  CHECK_FALSE(std::signbit(zeros.scores[0]));
  CHECK(std::signbit(zeros.scores[1]));
}

TEST_CASE("Selection puts NaN above +inf and equal scores in the order of their indices") {
  const std::vector<float> scores = {1, kInf, -kInf, kNan, 1, 0, -0.0F, 1};
  CHECK(candidate_select_blocks(scores, 8, 1).indices == Indices{3});
  CHECK(candidate_select_blocks(scores, 8, 2).indices == Indices{1, 3});
  CHECK(candidate_select_blocks(scores, 8, 4).indices == Indices{0, 1, 3, 4});
  CHECK(candidate_select_blocks(scores, 8, 6).indices == Indices{0, 1, 3, 4, 5, 7});
  const SelectedBlocks zeros = candidate_select_blocks({-0.0F, 0.0F}, 2, 1);
  CHECK(zeros.indices == Indices{0});
  CHECK(std::signbit(zeros.values[0]));
  CHECK(candidate_select_blocks({}, 0, 0).indices.empty());
  CHECK(candidate_select_blocks({3, 1, 2, 6, 5, 4}, 3, 2).indices == Indices{0, 2, 0, 1});
}

TEST_CASE("The mask holds whole blocks, cut off at the row's end, but none of NaN or -inf") {
  const SelectedBlocks selected = {{0, 2, 1, 2, 7, -1}, {1, kInf, kNan, -kInf, 1, 1}};
  const Mask keep = publish_candidate_mask(selected, 2, {5, 2});
  CHECK(keep == Mask{1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(publish_candidate_mask({}, 0, {5, 2}).empty());
}

TEST_CASE("A consumer sees what is both visible and published") {
  const std::vector<float> out = candidate_consume({1, kNan, 3, 4}, {1, 2}, {1, 1, 0, 1}, 2);
  CHECK(out == std::vector<float>{1, -kInf, -kInf, 4});
}

}  // namespace
}  // namespace kiln::reference
