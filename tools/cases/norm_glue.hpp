#pragma once

/// \file
/// Between the typed tensors of a call and the references of the norms.

#include <cstdint>
#include <vector>

#include "reference/mxfp8.hpp"
#include "reference/norm.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools::cases {

using reference::Bf16;

inline constexpr double kEps = 1e-6;

inline float eps(const HostCall& call) {
  return static_cast<float>(call.scalar("eps"));
}

/// A bf16 or f32 tensor in f32, exactly.
inline std::vector<float> floats(const HostTensor& tensor) {
  if (tensor.dtype == DType::kF32) {
    const auto values = tensor.as<float>();
    return {values.begin(), values.end()};
  }
  return reference::to_floats(tensor.as<Bf16>().data(),
                              static_cast<std::int64_t>(tensor.elements()));
}

/// q and sf of the rows y.
inline void store_mxfp8(HostCall& call, const Bf16* y) {
  const std::int64_t k = call.dim("k");
  const reference::Mxfp8 quantized = reference::mxfp8_quantize(y, k, call.dim("m"), k);
  call.store("q", quantized.q);
  call.store("sf", quantized.sf);
}

inline std::vector<Bf16> rmsnorm_of(const HostCall& call, const ReferenceDevice& device) {
  const std::int64_t k = call.dim("k");
  return reference::rmsnorm(call.data<Bf16>("x"), k, call.data<Bf16>("w"), eps(call), call.dim("m"),
                            k, device.rsqrt);
}

inline std::vector<Bf16> hc_combine_norm_of(const HostCall& call, const ReferenceDevice& device) {
  const std::int64_t k = call.dim("k");
  return reference::hc_combine_norm(call.data<Bf16>("x"), 4 * k, floats(call.tensor("pre")).data(),
                                    call.data<Bf16>("w"), eps(call), call.dim("m"), k,
                                    device.rsqrt);
}

}  // namespace kiln::tools::cases
