#pragma once

/// \file
/// What the tensor cores of sm_90 make of 16 products of bf16 in fp32, bit for bit. NVIDIA does not
/// document it; this was seen on an H200 to give the bits of mma.sync.m16n8k16 for values of every
/// kind. Other architectures may cut off more or less.

#include <array>

#include "reference/bf16.hpp"

namespace kiln::reference {

inline constexpr int kTensorProducts = 16;  ///< That one instruction adds up for one result.

/// The sum of a[i] * b[i], added to 0. Products are exact, and brought to the exponent of the
/// largest, where the exponent of a product is the sum of its factors' exponents; of each product
/// 25 bits below that exponent are kept, those further down are cut off. What these add up to,
/// exactly, is cut to fp32, toward zero.
float tensor_core_sum(const std::array<Bf16, kTensorProducts>& a,
                      const std::array<Bf16, kTensorProducts>& b) noexcept;

}  // namespace kiln::reference
