#pragma once

/// \file
/// MXFP8: groups of 32 elements along a row as e4m3, with one e8m0 scale byte each.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/bf16.hpp"

namespace kiln::reference {

/// Rounds to the nearest e4m3, ties to even, saturating to +-448; a NaN gives 0x7F.
std::uint8_t to_e4m3(float value) noexcept;

/// Exact; 0x7F and 0xFF are NaN.
float e4m3_to_float(std::uint8_t bits) noexcept;

/// The scale byte of a group with this largest magnitude.
std::uint8_t mxfp8_scale(float max_magnitude) noexcept;

/// What the elements of a group with this scale byte are multiplied by.
float mxfp8_multiplier(std::uint8_t scale) noexcept;

/// Bytes of the swizzled scales of an [m, k] matrix.
std::size_t mxfp8_scale_bytes(std::int64_t m, std::int64_t k) noexcept;

/// Where among them the byte of a row and a group of 32 lies.
std::size_t mxfp8_scale_index(std::int64_t row, std::int64_t group, std::int64_t k) noexcept;

struct Mxfp8 {
  std::vector<std::uint8_t> q;   ///< [m, k]
  std::vector<std::uint8_t> sf;  ///< Swizzled; what belongs to no row and group is 0.
};

/// Row i of x starts at x + i * x_row_stride; k % 32 == 0.
Mxfp8 mxfp8_quantize(const Bf16* x, std::int64_t x_row_stride, std::int64_t m, std::int64_t k);

}  // namespace kiln::reference
