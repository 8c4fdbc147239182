#pragma once

/// \file
/// The bits of rsqrt.approx.ftz.f32, which the references of the norms take from the device.

#include <cstdint>
#include <vector>

#include <kiln/kiln.hpp>

#include "tests/gpu/support/late_copy.hpp"

namespace kiln::gpu {

inline Op rsqrt_op() {
  ArgSpec from;
  from.name = "from";
  from.dtypes = {DType::kF32};
  from.shape = {"count"};
  ArgSpec to = from;
  to.name = "to";
  to.access = Access::kWrite;
  KernelSpec kernel;
  kernel.name = "probe";
  kernel.source = "rsqrt.cu";
  kernel.instantiation = "rsqrt_probe<0>";
  kernel.params = {Param::data("from"), Param::data("to"), Param::dim("count")};
  kernel.geometry = [](const Problem&, const Traits&) {
    return Geometry{.grid = {1, 1, 1}, .block = {1, 1, 1}, .cluster = {}};
  };
  Op op;
  op.name = "test_rsqrt";
  op.family = "test";
  op.summary = "One thread, one instruction for each value.";
  op.args = {from, to};
  op.kernels = {kernel};
  op.sources = {{"rsqrt.cu", R"cuda(
template <int>
__global__ void rsqrt_probe(const float* from, float* to, long long count) {
  for (long long i = 0; i < count; ++i)
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(to[i]) : "f"(from[i]));
}
)cuda"}};
  return op;
}

/// A reference::Rsqrt.
inline std::vector<float> device_rsqrt(const std::vector<float>& values) {
  if (values.empty()) {
    return {};
  }
  register_once(rsqrt_op());
  Gpu& gpu = Gpu::instance();
  const std::size_t bytes = values.size() * sizeof(float);
  const Buffer from(bytes);
  const Buffer to(bytes);
  from.upload(values.data(), bytes);
  const auto count = static_cast<std::int64_t>(values.size());
  gpu.engine.launch(
      "test_rsqrt",
      {Tensor(from.data(), DType::kF32, {count}), Tensor(to.data(), DType::kF32, {count})},
      gpu.stream.get());
  gpu.stream.synchronize();
  std::vector<float> out(values.size());
  to.download(out.data(), bytes);
  return out;
}

}  // namespace kiln::gpu
