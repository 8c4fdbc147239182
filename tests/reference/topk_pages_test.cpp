#include "reference/topk_pages.hpp"

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

using Indices = std::vector<std::int64_t>;

TEST_CASE("Valid positions are found in their pages, all others are -1, in order") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const TopkPages input = {{1, -kInf, kNan, kInf, -2, 0, 0, 0, 0, 0},
                           {4, 0, 1, 2, 3, 5, -1, 4},
                           {10, 20, 30, 2'000'000'000, 2, 3},
                           5,
                           4,
                           3,
                           2};
  const FilteredPages pages = filter_topk_pages(input);
  CHECK(pages.raw_indices == Indices{4, 0, -1, -1, 3, -1, -1, 4});
  CHECK(pages.page_indices == Indices{60, 20, -1, -1, 5, -1, -1, 6});
}

TEST_CASE("A page far away is worked out in 64 bits") {
  const FilteredPages pages = filter_topk_pages({{1, 1, 1}, {2}, {2'000'000'000}, 3, 1, 1, 64});
  CHECK(pages.page_indices == Indices{2'000'000'000LL * 64 + 2});
}

}  // namespace
}  // namespace kiln::reference
