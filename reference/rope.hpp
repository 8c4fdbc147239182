#pragma once

/// \file
/// The rotation of the last 64 elements of heads of 512.

#include <cstdint>
#include <vector>

#include "reference/bf16.hpp"

namespace kiln::reference {

/// Cosine and sine of 32 angles for each of `rows` positions, one after the other.
struct RopeTable {
  const float* freqs;
  std::int64_t rows;
};

/// Rotates the last 64 elements of each head of x, [positions.size(), heads, 512]: for even element
/// a and odd element b of pair i, with cosine c and sine s of angle i of the row's position,
/// a' = fma(a, c, -(b * s)) and b' = fma(a, s, b * c), the product rounded first, then once to
/// bf16. A position outside the table takes its nearest row.
std::vector<Bf16> rope(std::vector<Bf16> x, std::int64_t heads, const RopeTable& table,
                       const std::vector<std::int64_t>& positions);

}  // namespace kiln::reference
