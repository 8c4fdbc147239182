#include "reference/row_argmax.hpp"

#include <cmath>

namespace kiln::reference {
namespace {

std::int64_t argmax(const float* row, std::int64_t n) {
  std::int64_t best = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(row[i])) {
      return i;
    }
    if (row[i] > row[best]) {
      best = i;
    }
  }
  return best;
}

}  // namespace

std::vector<std::int64_t> row_argmax(const float* x, std::int64_t x_row_stride, std::int64_t rows,
                                     std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t row = 0; row < rows; ++row) {
    out.push_back(argmax(x + row * x_row_stride, n));
  }
  return out;
}

}  // namespace kiln::reference
