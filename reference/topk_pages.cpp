#include "reference/topk_pages.hpp"

#include <cstddef>
#include <limits>

namespace kiln::reference {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

FilteredPages filter_topk_pages(const TopkPages& input) {
  FilteredPages out;
  for (std::size_t i = 0; i < input.indices.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / input.k;
    const std::int64_t index = input.indices[i];
    const bool valid =
        index >= 0 && index < input.width &&
        input.scores[at(row * input.width + index)] > -std::numeric_limits<float>::infinity();
    std::int64_t paged = -1;
    if (valid) {
      const std::int64_t page = input.page_table[at(row * input.pages + index / input.page_size)];
      paged = page * input.page_size + index % input.page_size;
    }
    out.page_indices.push_back(paged);
    out.raw_indices.push_back(valid ? index : -1);
  }
  return out;
}

}  // namespace kiln::reference
