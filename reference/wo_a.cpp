#include "reference/wo_a.hpp"

#include <array>
#include <cmath>
#include <cstddef>

namespace kiln::reference {
namespace {

constexpr std::int64_t kStep = 256;
constexpr std::int64_t kVector = 8;
constexpr std::size_t kLanes = 32;

// Every lane ends with the same sum, since a pair adds the same two values.
float sum_of_lanes(std::array<float, kLanes> lanes) {
  for (std::size_t mask = kLanes / 2; mask > 0; mask /= 2) {
    const std::array<float, kLanes> before = lanes;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = before[lane] + before[lane ^ mask];
    }
  }
  return lanes[0];
}

// The sum over steps first, first + stride, ... of d elements.
float sum_of_slice(const Bf16* x, const Bf16* w, std::int64_t d, std::int64_t first,
                   std::int64_t stride) {
  std::array<float, kLanes> lanes{};
  for (std::int64_t step = first; step * kStep < d; step += stride) {
    for (std::int64_t i = step * kStep; i < (step + 1) * kStep; ++i) {
      float& lane = lanes[static_cast<std::size_t>(i % kStep / kVector)];
      lane = std::fma(to_float(x[i]), to_float(w[i]), lane);
    }
  }
  return sum_of_lanes(lanes);
}

float sum_of_slices(const Bf16* x, const Bf16* w, std::int64_t d, std::int64_t slices) {
  float sum = sum_of_slice(x, w, d, 0, slices);
  for (std::int64_t slice = 1; slice < slices; ++slice) {
    sum += sum_of_slice(x, w, d, slice, slices);
  }
  return sum;
}

std::vector<Bf16> products(const Bf16* x, std::int64_t x_row_stride, const Bf16* w,
                           const WoAShape& shape, std::int64_t slices) {
  std::vector<Bf16> y;
  for (std::int64_t token = 0; token < shape.m; ++token) {
    for (std::int64_t output = 0; output < shape.g * shape.r; ++output) {
      const Bf16* row = x + token * x_row_stride + output / shape.r * shape.d;
      y.push_back(to_bf16(sum_of_slices(row, w + output * shape.d, shape.d, slices)));
    }
  }
  return y;
}

}  // namespace

std::vector<Bf16> wo_a_gemv(const Bf16* x, const Bf16* w, const WoAShape& shape) {
  return products(x, 0, w, shape, 1);
}

std::vector<Bf16> wo_a_small_batch(const Bf16* x, std::int64_t x_row_stride, const Bf16* w,
                                   const WoAShape& shape) {
  return products(x, x_row_stride, w, shape, 2);
}

}  // namespace kiln::reference
