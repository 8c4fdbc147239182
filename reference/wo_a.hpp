#pragma once

/// \file
/// y[m, g, r] = sum over d of x[m, g, d] * w[g, r, d], summed in the orders of the two kernels that
/// there are. Their contract bounds the error and demands that a token's bits do not depend on the
/// others; the orders are this project's own, and fixed, so that comparisons may be bitwise.
///
/// One rounding to bf16 at the end.

#include <cstdint>
#include <vector>

#include "reference/bf16.hpp"

namespace kiln::reference {

struct WoAShape {
  std::int64_t m, g, r, d;
};

/// In steps of 256 elements, lane t of 32 takes elements [t * 8, t * 8 + 8) of a step, adds their
/// products to one fp32 accumulator from 0, one fma each, and the lanes are added in pairs that
/// differ in one bit: 16, 8, 4, 2, 1. x: [g, d], w: [g, r, d]; m is 1.
std::vector<Bf16> wo_a_gemv(const Bf16* x, const Bf16* w, const WoAShape& shape);

/// d is cut into 2 parts, and a part into slices of 128, which 8 warps take in turn. A warp goes
/// through its slices in steps of 32 elements. A tensor core adds up the products of 16 of them
/// from 0 (tensor_core.hpp), then those of the other 16, and each result is added to the warp's sum
/// in fp32; the first 16 are elements 0, 1, 4 and 5 of every 8. Then the warps of a part are added
/// in order, and then the parts. d is a multiple of 512. Token i of x starts at x + i *
/// x_row_stride; a token is [g, d].
std::vector<Bf16> wo_a_small_batch(const Bf16* x, std::int64_t x_row_stride, const Bf16* w,
                                   const WoAShape& shape);

}  // namespace kiln::reference
