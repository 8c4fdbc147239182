#pragma once

/// \file
/// y[m, g, r] = sum over d of x[m, g, d] * w[g, r, d], summed in the orders of the two kernels that
/// there are. Their contract bounds the error and demands that a token's bits do not depend on the
/// others; the orders are this project's own, and fixed, so that comparisons may be bitwise.
///
/// Both: in steps of 256 elements, lane t of 32 takes elements [t * 8, t * 8 + 8) of a step, adds
/// their products to one fp32 accumulator from 0, one fma each, and the lanes are added in pairs
/// that differ in one bit: 16, 8, 4, 2, 1. One rounding to bf16 at the end.

#include <cstdint>
#include <vector>

#include "reference/bf16.hpp"

namespace kiln::reference {

struct WoAShape {
  std::int64_t m, g, r, d;
};

/// Lanes go through all steps. x: [g, d], w: [g, r, d]; m is 1.
std::vector<Bf16> wo_a_gemv(const Bf16* x, const Bf16* w, const WoAShape& shape);

/// Slice s of 2 takes steps s, s + 2, ...; the second slice is added to the first.
/// Token i of x starts at x + i * x_row_stride; a token is [g, d].
std::vector<Bf16> wo_a_small_batch(const Bf16* x, std::int64_t x_row_stride, const Bf16* w,
                                   const WoAShape& shape);

}  // namespace kiln::reference
