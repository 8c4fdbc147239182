#include "reference/gemm.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "reference/warp_sum.hpp"

namespace kiln::reference {
namespace {

constexpr int kWarp = static_cast<int>(kLanes);
constexpr int kFirstWithWideVectors = 100;

float sum_of_thread(const Bf16* x, const Bf16* w, std::int64_t k, int thread, int threads, int v) {
  float sum = 0;
  for (std::int64_t vector = thread; vector < k / v; vector += threads) {
    for (std::int64_t i = vector * v; i < (vector + 1) * v; ++i) {
      sum = std::fma(to_float(x[i]), to_float(w[i]), sum);
    }
  }
  return sum;
}

Bf16 dot(const Bf16* x, const Bf16* w, std::int64_t k, int threads, int v) {
  float sum = 0;
  for (int warp = 0; warp < threads / kWarp; ++warp) {
    std::array<float, kLanes> lanes{};
    for (int lane = 0; lane < kWarp; ++lane) {
      lanes[static_cast<std::size_t>(lane)] =
          sum_of_thread(x, w, k, warp * kWarp + lane, threads, v);
    }
    const float warp_sum = sum_of_warp(lanes);
    // Not 0 + warp_sum, which would turn -0 into +0.
    sum = warp == 0 ? warp_sum : sum + warp_sum;
  }
  return to_bf16(sum);
}

struct Shape {
  std::int64_t n, k;
  int threads;
};

void gemm(const Shape& shape, const Bf16* x, std::int64_t x_row_stride, const Bf16* w, Bf16* out,
          std::int64_t m, int v) {
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t column = 0; column < shape.n; ++column) {
      out[row * shape.n + column] =
          dot(x + row * x_row_stride, w + column * shape.k, shape.k, shape.threads, v);
    }
  }
}

}  // namespace

int vector_elements(int compute_capability) noexcept {
  return compute_capability < kFirstWithWideVectors ? 8 : 16;
}

void n128k512_gemm_bf16(const Bf16* x, std::int64_t x_row_stride, const Bf16* w, Bf16* out,
                        std::int64_t m, int vector_elements) {
  gemm({128, 512, 32}, x, x_row_stride, w, out, m, vector_elements);
}

void n32k5120_gemm_bf16(const Bf16* x, std::int64_t x_row_stride, const Bf16* w, Bf16* out,
                        std::int64_t m, int vector_elements) {
  gemm({32, 5120, 320}, x, x_row_stride, w, out, m, vector_elements);
}

ExactDot exact_dot(const Bf16* a, const Bf16* b, std::int64_t k) noexcept {
  ExactDot result;
  for (std::int64_t i = 0; i < k; ++i) {
    const double product =
        static_cast<double>(to_float(a[i])) * static_cast<double>(to_float(b[i]));
    result.value += product;
    result.absolute_sum += std::fabs(product);
  }
  return result;
}

bool within_bound(Bf16 got, const ExactDot& exact) noexcept {
  const auto value = static_cast<double>(to_float(got));
  if (std::isnan(exact.value)) {
    return std::isnan(value);
  }
  if (std::isinf(exact.value)) {
    return value == exact.value;
  }
  const double bound = bf16_ulp(exact.value) + std::ldexp(exact.absolute_sum, -20);
  if (std::isinf(value)) {
    const double first_beyond_range = std::ldexp(1.0, 128);
    return std::signbit(value) == std::signbit(exact.value) &&
           std::fabs(exact.value) + bound >= first_beyond_range;
  }
  return std::fabs(value - exact.value) <= bound;
}

}  // namespace kiln::reference
