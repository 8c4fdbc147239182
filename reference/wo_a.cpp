#include "reference/wo_a.hpp"

#include <array>
#include <cmath>
#include <cstddef>

#include "reference/tensor_core.hpp"
#include "reference/warp_sum.hpp"

namespace kiln::reference {
namespace {

constexpr std::int64_t kStep = 256;
constexpr std::int64_t kVector = 8;
constexpr std::int64_t kParts = 2;
constexpr std::int64_t kWarps = 8;
constexpr std::int64_t kSlice = 128;
constexpr std::int64_t kBatchStep = 32;

float sum_of_one(const Bf16* x, const Bf16* w, std::int64_t d) {
  std::array<float, kLanes> lanes{};
  for (std::int64_t i = 0; i < d; ++i) {
    float& lane = lanes[static_cast<std::size_t>(i % kStep / kVector)];
    lane = std::fma(to_float(x[i]), to_float(w[i]), lane);
  }
  return sum_of_warp(lanes);
}

// Of one group of 16 in a step of 32: of each 8 elements, pairs `pair` and `pair` + 2.
float sum_of_group(const Bf16* x, const Bf16* w, std::int64_t pair) {
  std::array<Bf16, kTensorProducts> a{};
  std::array<Bf16, kTensorProducts> b{};
  for (std::int64_t i = 0; i < kTensorProducts; ++i) {
    const std::int64_t element = i / 4 * kVector + (i % 4 / 2 * 2 + pair) * 2 + i % 2;
    a[static_cast<std::size_t>(i)] = x[element];
    b[static_cast<std::size_t>(i)] = w[element];
  }
  return tensor_core_sum(a, b);
}

// The slices first, first + kWarps, ... of `count` slices.
float sum_of_warp(const Bf16* x, const Bf16* w, std::int64_t count, std::int64_t first) {
  float sum = 0;
  for (std::int64_t slice = first; slice < count; slice += kWarps) {
    for (std::int64_t i = slice * kSlice; i < (slice + 1) * kSlice; i += kBatchStep) {
      sum += sum_of_group(x + i, w + i, 0);
      sum += sum_of_group(x + i, w + i, 1);
    }
  }
  return sum;
}

float sum_of_batch(const Bf16* x, const Bf16* w, std::int64_t d) {
  float sum = 0;
  for (std::int64_t part = 0; part < kParts; ++part) {
    const std::int64_t begin = part * (d / kParts);
    const std::int64_t slices = d / kParts / kSlice;
    float part_sum = sum_of_warp(x + begin, w + begin, slices, 0);
    for (std::int64_t warp = 1; warp < kWarps; ++warp) {
      part_sum += sum_of_warp(x + begin, w + begin, slices, warp);
    }
    sum = part == 0 ? part_sum : sum + part_sum;
  }
  return sum;
}

// sum: (token, row of weights) -> fp32.
template <class Sum>
std::vector<Bf16> products(const Bf16* x, std::int64_t x_row_stride, const Bf16* w,
                           const WoAShape& shape, const Sum& sum) {
  std::vector<Bf16> y;
  for (std::int64_t token = 0; token < shape.m; ++token) {
    for (std::int64_t output = 0; output < shape.g * shape.r; ++output) {
      const Bf16* row = x + token * x_row_stride + output / shape.r * shape.d;
      y.push_back(to_bf16(sum(row, w + output * shape.d, shape.d)));
    }
  }
  return y;
}

}  // namespace

std::vector<Bf16> wo_a_gemv(const Bf16* x, const Bf16* w, const WoAShape& shape) {
  return products(x, 0, w, shape, sum_of_one);
}

std::vector<Bf16> wo_a_small_batch(const Bf16* x, std::int64_t x_row_stride, const Bf16* w,
                                   const WoAShape& shape) {
  return products(x, x_row_stride, w, shape, sum_of_batch);
}

}  // namespace kiln::reference
