#pragma once

/// \file
/// One small GEMM on the device with its inputs, its poisoned output and its reference.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "reference/gemm.hpp"
#include "tests/gpu/support/compare.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/random.hpp"

namespace kiln::gpu {

struct GemmShape {
  const char* op;
  std::int64_t n;
  std::int64_t k;
  decltype(&reference::n128k512_gemm_bf16) reference;
};
inline constexpr GemmShape kGemmShapes[] = {
    {"n128k512_gemm_bf16", 128, 512, reference::n128k512_gemm_bf16},
    {"n32k5120_gemm_bf16", 32, 5120, reference::n32k5120_gemm_bf16}};

/// The reference's output for `rows` contiguous rows of x, computed on all cores.
inline std::vector<std::uint16_t> reference_gemm(const GemmShape& shape,
                                                 const std::vector<std::uint16_t>& x,
                                                 const std::vector<std::uint16_t>& w,
                                                 int vector_elements) {
  const auto k = static_cast<std::size_t>(shape.k);
  const auto n = static_cast<std::size_t>(shape.n);
  const std::size_t rows = x.size() / k;
  std::vector<std::uint16_t> out(rows * n);
  const std::size_t workers = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      const std::size_t begin = rows * worker / workers;
      const std::size_t end = rows * (worker + 1) / workers;
      shape.reference(x.data() + begin * k, shape.k, w.data(), out.data() + begin * n,
                      static_cast<std::int64_t>(end - begin), vector_elements);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return out;
}

/// x as the op sees it: rows `stride` elements apart, NaN between them, so that a read of the gap
/// shows in the output.
class DeviceRows {
 public:
  DeviceRows(std::int64_t rows, std::int64_t k, std::int64_t stride)
      : rows_(rows), k_(k), stride_(stride), buffer_(static_cast<std::size_t>(rows * stride) * 2) {
    buffer_.fill(0xFF);
  }

  /// Copies rows [first, first + rows) of a contiguous device matrix, in stream order.
  void copy_from(const Buffer& matrix, std::int64_t first, const Stream& stream) const {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = matrix.address() + static_cast<std::size_t>(first * k_) * 2;
    copy.srcPitch = static_cast<std::size_t>(k_) * 2;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = buffer_.address();
    copy.dstPitch = static_cast<std::size_t>(stride_) * 2;
    copy.WidthInBytes = static_cast<std::size_t>(k_) * 2;
    copy.Height = static_cast<std::size_t>(rows_);
    KILN_CU(cuMemcpy2DAsync, &copy, stream.get());
  }
  Tensor tensor() const { return {buffer_.data(), DType::kBF16, {rows_, k_}, {stride_, 1}}; }
  void* data() const { return buffer_.data(); }

 private:
  std::int64_t rows_;
  std::int64_t k_;
  std::int64_t stride_;
  Buffer buffer_;
};

/// Host and device copies of a problem with many rows, and the reference's answer for all of them.
/// Since a row's bits do not depend on its batch, every batch is checked against a slice of it.
struct GemmData {
  GemmData(const GemmShape& gemm_shape, std::vector<std::uint16_t> x_values,
           std::vector<std::uint16_t> w_values, int vector_elements)
      : shape(gemm_shape),
        x(std::move(x_values)),
        w(std::move(w_values)),
        expected(reference_gemm(shape, x, w, vector_elements)),
        x_device(x.size() * 2),
        w_device(w.size() * 2) {
    x_device.upload(x.data(), x.size() * 2);
    w_device.upload(w.data(), w.size() * 2);
  }

  static GemmData random(const GemmShape& shape, std::int64_t rows, float magnitude,
                         std::uint64_t seed, int vector_elements) {
    return {shape, random_bf16(static_cast<std::size_t>(rows * shape.k), magnitude, seed),
            random_bf16(static_cast<std::size_t>(shape.n * shape.k), 1.0F, seed + 1),
            vector_elements};
  }

  std::int64_t rows() const { return static_cast<std::int64_t>(x.size()) / shape.k; }
  Tensor w_tensor() const { return {w_device.data(), DType::kBF16, {shape.n, shape.k}}; }
  std::span<const std::uint16_t> expected_rows(std::int64_t first, std::int64_t count) const {
    return std::span(expected).subspan(static_cast<std::size_t>(first * shape.n),
                                       static_cast<std::size_t>(count * shape.n));
  }

  GemmShape shape;
  std::vector<std::uint16_t> x;
  std::vector<std::uint16_t> w;
  std::vector<std::uint16_t> expected;
  Buffer x_device;
  Buffer w_device;
};

}  // namespace kiln::gpu
