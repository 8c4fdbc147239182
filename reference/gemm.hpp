#pragma once

/// \file
/// The two small GEMMs, summed in exactly the order that their contract states.
///
/// For every output, T threads share the K products. In vectors of V elements, thread t takes
/// vectors t, T + t, 2T + t, ... and adds their products to one fp32 accumulator, one fma each, in
/// element order from 0. Each warp of 32 threads adds its sums in pairs of lanes that differ in one
/// bit: 16, 8, 4, 2, 1. The warps' sums are added one after the other, warp 0 first. The result is
/// rounded to bf16 once.

#include <cstdint>

#include "reference/bf16.hpp"

namespace kiln::reference {

/// V of kernels for this compute capability (90, 103, ...): 8 below 100, 16 from there on.
int vector_elements(int compute_capability) noexcept;

/// out[m, 128] = x[m, 512] * w[128, 512]^T, with T = 32, and V = vector_elements, 8 or 16. Row i of
/// x starts at x + i * x_row_stride; w and out are contiguous.
void n128k512_gemm_bf16(const Bf16* x, std::int64_t x_row_stride, const Bf16* w, Bf16* out,
                        std::int64_t m, int vector_elements);

/// out[m, 32] = x[m, 5120] * w[32, 5120]^T, with T = 320. As above.
void n32k5120_gemm_bf16(const Bf16* x, std::int64_t x_row_stride, const Bf16* w, Bf16* out,
                        std::int64_t m, int vector_elements);

/// A dot product in fp64, with what its error bound needs.
struct ExactDot {
  double value = 0;         ///< Sum of a[i] * b[i].
  double absolute_sum = 0;  ///< Sum of |a[i] * b[i]|.
};

ExactDot exact_dot(const Bf16* a, const Bf16* b, std::int64_t k) noexcept;

/// Whether `got` is as near to the fp64 dot product as the contract demands of either order: within
/// one bf16 ulp of it plus 2^-20 * absolute_sum. A NaN must be met by a NaN and an infinite sum by
/// that infinity; an infinite `got` counts as the first value beyond the largest finite bf16.
bool within_bound(Bf16 got, const ExactDot& exact) noexcept;

}  // namespace kiln::reference
