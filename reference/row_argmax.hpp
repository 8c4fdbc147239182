#pragma once

/// \file
/// The index of the largest element of a row.

#include <cstdint>
#include <vector>

namespace kiln::reference {

/// Of each of `rows` rows of n >= 1 elements, row i starting at x + i * x_row_stride: the index of
/// the first NaN if there is one, else the lowest index among the largest elements. 0 where all
/// are -inf.
std::vector<std::int64_t> row_argmax(const float* x, std::int64_t x_row_stride, std::int64_t rows,
                                     std::int64_t n);

}  // namespace kiln::reference
