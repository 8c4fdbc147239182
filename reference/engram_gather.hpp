#pragma once

/// \file
/// Rows of a quantised embedding table.

#include <cstdint>
#include <vector>

#include "reference/bf16.hpp"
#include "reference/mxfp8.hpp"

namespace kiln::reference {

/// 2^(value - 127); 255 is NaN.
float e8m0_to_float(std::uint8_t value) noexcept;

/// The rows of a table that are here: those from row_lo on, `rows` of them.
struct EngramTable {
  const std::uint8_t* weight = nullptr;  ///< [rows, dim], e4m3
  const std::uint8_t* scale = nullptr;   ///< [rows, dim / block], e8m0
  std::int64_t row_lo = 0;
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::int64_t block = 1;  ///< Columns that share a scale; divides dim.
};

/// The result is [ids, dim]; zeros for an id that is not here.
std::vector<Bf16> engram_gather(const EngramTable& table, const std::vector<std::int64_t>& ids);

}  // namespace kiln::reference
