#pragma once

/// \file
/// The bits of rsqrt.approx.ftz.f32, which the references of the norms take from the device.

#include <cstdint>
#include <vector>

#include <kiln/engine.hpp>

#include "tests/gpu/support/late_copy.hpp"
#include "tools/rsqrt_probe.hpp"

namespace kiln::gpu {

/// A reference::Rsqrt.
inline std::vector<float> device_rsqrt(const std::vector<float>& values) {
  if (values.empty()) {
    return {};
  }
  register_once(tools::rsqrt_probe_op());
  Gpu& gpu = Gpu::instance();
  const std::size_t bytes = values.size() * sizeof(float);
  const Buffer from(bytes);
  const Buffer to(bytes);
  from.upload(values.data(), bytes);
  const auto count = static_cast<std::int64_t>(values.size());
  gpu.engine.launch(
      "rsqrt_probe",
      {Tensor(from.data(), DType::kF32, {count}), Tensor(to.data(), DType::kF32, {count})},
      gpu.stream.get());
  gpu.stream.synchronize();
  std::vector<float> out(values.size());
  to.download(out.data(), bytes);
  return out;
}

}  // namespace kiln::gpu
