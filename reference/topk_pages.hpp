#pragma once

/// \file
/// Selected positions of rows as positions in pages.

#include <cstdint>
#include <vector>

namespace kiln::reference {

/// Rows of `width` scores, `k` selected positions and `pages` page numbers each.
struct TopkPages {
  std::vector<float> scores;
  std::vector<std::int64_t> indices;
  std::vector<std::int32_t> page_table;
  std::int64_t width;
  std::int64_t k;
  std::int64_t pages;
  std::int64_t page_size;
};

struct FilteredPages {
  std::vector<std::int64_t> page_indices;
  std::vector<std::int64_t> raw_indices;
};

/// An index is valid when it lies in the row and its score is above -inf, which no NaN is. Then
/// page_indices has page_table[index / page_size] * page_size + index % page_size and raw_indices
/// the index; else both have -1.
FilteredPages filter_topk_pages(const TopkPages& input);

}  // namespace kiln::reference
