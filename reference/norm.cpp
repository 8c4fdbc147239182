#include "reference/norm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "reference/warp_sum.hpp"

namespace kiln::reference {
namespace {

constexpr std::int64_t kVector = 8;
constexpr std::int64_t kMaxThreads = 1024;
constexpr int kStreams = 4;

float sum_of_thread(const float* a, const float* b, std::int64_t k, std::int64_t thread,
                    std::int64_t threads) {
  float sum = 0;
  for (std::int64_t first = thread * kVector; first < k; first += threads * kVector) {
    for (std::int64_t i = first; i < first + kVector; ++i) {
      sum = std::fma(a[i], b[i], sum);
    }
  }
  return sum;
}

}  // namespace

std::vector<float> exact_rsqrt(const std::vector<float>& values) {
  std::vector<float> out;
  out.reserve(values.size());
  for (const float value : values) {
    const bool subnormal = std::fabs(value) < std::numeric_limits<float>::min();
    const double taken = subnormal ? std::copysign(0.0, value) : value;
    out.push_back(static_cast<float>(1 / std::sqrt(taken)));
  }
  return out;
}

float row_sum(const float* a, const float* b, std::int64_t k) {
  const std::int64_t busy = std::min(kMaxThreads, k / kVector);
  const auto warps = (static_cast<std::size_t>(busy) + kLanes - 1) / kLanes;
  const auto threads = static_cast<std::int64_t>(warps * kLanes);
  std::array<float, kLanes> warp_sums{};
  for (std::size_t warp = 0; warp < warps; ++warp) {
    std::array<float, kLanes> lanes{};
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] =
          sum_of_thread(a, b, k, static_cast<std::int64_t>(warp * kLanes + lane), threads);
    }
    warp_sums[warp] = sum_of_warp(lanes);
  }
  return sum_of_warp(warp_sums);
}

std::vector<float> rms_norm(const std::vector<float>& x, const std::vector<float>& w, float eps,
                            const Rsqrt& rsqrt) {
  const std::size_t k = w.size();
  const std::size_t m = x.size() / k;
  std::vector<float> means(m);
  for (std::size_t row = 0; row < m; ++row) {
    const float* values = x.data() + row * k;
    const float sum = row_sum(values, values, static_cast<std::int64_t>(k));
    means[row] = sum / static_cast<float>(k) + eps;
  }
  const std::vector<float> inverse = rsqrt(means);
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float normalised = x[i] * inverse[i / k];
    y[i] = normalised * w[i % k];
  }
  return y;
}

std::vector<float> to_floats(const Bf16* values, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  std::transform(values, values + count, out.begin(), [](Bf16 value) { return to_float(value); });
  return out;
}

std::vector<Bf16> to_bf16s(const std::vector<float>& values) {
  std::vector<Bf16> out(values.size());
  std::transform(values.begin(), values.end(), out.begin(), to_bf16);
  return out;
}

std::vector<Bf16> rmsnorm(const Bf16* x, std::int64_t x_row_stride, const Bf16* w, float eps,
                          std::int64_t m, std::int64_t k, const Rsqrt& rsqrt) {
  std::vector<float> rows;
  rows.reserve(static_cast<std::size_t>(m * k));
  for (std::int64_t row = 0; row < m; ++row) {
    const std::vector<float> values = to_floats(x + row * x_row_stride, k);
    rows.insert(rows.end(), values.begin(), values.end());
  }
  return to_bf16s(rms_norm(rows, to_floats(w, k), eps, rsqrt));
}

std::vector<Bf16> hc_combine(const Bf16* x, std::int64_t x_row_stride, const float* pre,
                             std::int64_t m, std::int64_t k) {
  std::vector<Bf16> out(static_cast<std::size_t>(m * k));
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t h = 0; h < k; ++h) {
      float sum = 0;
      for (int c = 0; c < kStreams; ++c) {
        sum = std::fma(to_float(x[row * x_row_stride + c * k + h]), pre[row * kStreams + c], sum);
      }
      out[static_cast<std::size_t>(row * k + h)] = to_bf16(sum);
    }
  }
  return out;
}

std::vector<Bf16> hc_combine_norm(const Bf16* x, std::int64_t x_row_stride, const float* pre,
                                  const Bf16* w, float eps, std::int64_t m, std::int64_t k,
                                  const Rsqrt& rsqrt) {
  return rmsnorm(hc_combine(x, x_row_stride, pre, m, k).data(), k, w, eps, m, k, rsqrt);
}

std::vector<Bf16> mhc_post_split_h(const Bf16* x, const Bf16* residual, const float* post,
                                   const float* comb, std::int64_t t, std::int64_t h) {
  std::vector<Bf16> out(static_cast<std::size_t>(t * kStreams * h));
  const auto stream = [&](std::int64_t token, int i, std::int64_t column) {
    return static_cast<std::size_t>((token * kStreams + i) * h + column);
  };
  for (std::int64_t token = 0; token < t; ++token) {
    for (int c = 0; c < kStreams; ++c) {
      for (std::int64_t column = 0; column < h; ++column) {
        const auto weight = [&](int i) { return comb[(token * kStreams + i) * kStreams + c]; };
        const auto value = [&](int i) { return to_float(residual[stream(token, i, column)]); };
        const float first = weight(0) * value(0);
        float sum = std::fma(post[token * kStreams + c], to_float(x[token * h + column]), first);
        for (int i = 1; i < kStreams; ++i) {
          sum = std::fma(weight(i), value(i), sum);
        }
        out[stream(token, c, column)] = to_bf16(sum);
      }
    }
  }
  return out;
}

}  // namespace kiln::reference
