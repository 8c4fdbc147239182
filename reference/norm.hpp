#pragma once

/// \file
/// Root mean square norms and what surrounds them in hyper-connections, summed in exactly the order
/// that their contract states.
///
/// T = 32 * ceil(min(1024, k / 8) / 32) threads share the sum over a row of k elements. In vectors
/// of 8, thread t takes vectors t, T + t, ... and adds their terms to one fp32 accumulator, one fma
/// each, in element order from 0. Each warp of 32 threads adds its sums in pairs of lanes that
/// differ in one bit: 16, 8, 4, 2, 1; the warps' sums, padded with zeros to 32, are added likewise.

#include <cstdint>
#include <functional>
#include <vector>

#include "reference/bf16.hpp"

namespace kiln::reference {

/// The instruction rsqrt.approx.ftz.f32 on each value. Its bits are the device's: a comparison of
/// bits takes them from there.
using Rsqrt = std::function<std::vector<float>(const std::vector<float>&)>;

/// 1 / sqrt rounded to nearest, subnormal values taken as zeros of their sign: within 2 units of
/// the last place of the instruction's.
std::vector<float> exact_rsqrt(const std::vector<float>& values);

/// Sum of a[i] * b[i] over a row; k % 8 == 0.
float row_sum(const float* a, const float* b, std::int64_t k);

/// (x * inv) * w in fp32, before any rounding to the output's type, with inv =
/// rsqrt(mean of x^2 + eps) of each row. x: [m, k] contiguous, w: [k].
std::vector<float> rms_norm(const std::vector<float>& x, const std::vector<float>& w, float eps,
                            const Rsqrt& rsqrt);

/// The same on bf16, rounded once. Row i of x starts at x + i * x_row_stride.
std::vector<Bf16> rmsnorm(const Bf16* x, std::int64_t x_row_stride, const Bf16* w, float eps,
                          std::int64_t m, std::int64_t k, const Rsqrt& rsqrt);

/// The weighted sum of the four streams of each row, rounded to bf16. x: rows of 4 * k elements,
/// pre: [m, 4].
std::vector<Bf16> hc_combine(const Bf16* x, std::int64_t x_row_stride, const float* pre,
                             std::int64_t m, std::int64_t k);

/// rmsnorm of hc_combine.
std::vector<Bf16> hc_combine_norm(const Bf16* x, std::int64_t x_row_stride, const float* pre,
                                  const Bf16* w, float eps, std::int64_t m, std::int64_t k,
                                  const Rsqrt& rsqrt);

/// x: [t, h], residual: [t, 4, h], post: [t, 4], comb: [t, 4, 4] with the source stream first. The
/// result is [t, 4, h].
std::vector<Bf16> mhc_post_split_h(const Bf16* x, const Bf16* residual, const float* post,
                                   const float* comb, std::int64_t t, std::int64_t h);

std::vector<float> to_floats(const Bf16* values, std::int64_t count);
std::vector<Bf16> to_bf16s(const std::vector<float>& values);

}  // namespace kiln::reference
