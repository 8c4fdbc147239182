#include "runtime/pointer_check.hpp"

#include <bit>
#include <string>

#include <fmt/format.h>

namespace kiln::runtime {
namespace {

// Bytes from the first to the last element, both included; 0 when there is no element. The tensor
// has passed the op's check, so nothing overflows.
std::uint64_t extent_bytes(const DLTensor& tensor) {
  std::int64_t last = 0;
  std::int64_t compact = 1;
  for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
    if (tensor.shape[axis] == 0) {
      return 0;
    }
    const std::int64_t stride = tensor.strides != nullptr ? tensor.strides[axis] : compact;
    last += (tensor.shape[axis] - 1) * stride;
    compact *= tensor.shape[axis];
  }
  return static_cast<std::uint64_t>(last + 1) * (tensor.dtype.bits / 8U);
}

// Empty when `address` is memory of the device, or of the host where that is allowed; else what it
// is.
std::string foreign(const Driver& driver, CUdeviceptr address, const DeviceInfo& device,
                    bool host_memory) {
  const DriverApi& api = driver.api();
  unsigned managed = 0;
  if (api.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) ==
          CUDA_SUCCESS &&
      managed != 0) {
    return {};
  }
  unsigned type = 0;
  if (api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS) {
    return "is no memory that the CUDA driver knows";
  }
  if (type != CU_MEMORYTYPE_DEVICE) {
    return host_memory ? std::string() : "is host memory";
  }
  int ordinal = 0;
  const CUresult result =
      api.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  if (result != CUDA_SUCCESS) {
    return "is of unknown place: " + driver.error_text("cuPointerGetAttribute", result);
  }
  return ordinal == device.ordinal ? std::string() : fmt::format("is memory of device {}", ordinal);
}

}  // namespace

Status check_pointers(const Driver& driver, const registry::BoundOp& bound,
                      std::span<const Arg> args, const DeviceInfo& device) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].kind() != Arg::Kind::kTensor) {
      continue;
    }
    const DLTensor& tensor = args[i].tensor();
    const std::uint64_t bytes = extent_bytes(tensor);
    if (bytes == 0) {
      continue;
    }
    const CUdeviceptr first = std::bit_cast<CUdeviceptr>(tensor.data) + tensor.byte_offset;
    for (const CUdeviceptr address : {first, first + bytes - 1}) {
      const std::string problem = foreign(driver, address, device, bound.op.args[i].host_memory);
      if (!problem.empty()) {
        return fail(
            ErrorCode::kInvalidArgument,
            fmt::format("{}, argument {}: declared on CUDA device {}, but its {} byte ({:#x}) "
                        "{}",
                        bound.op.name, bound.op.args[i].name, device.ordinal,
                        address == first ? "first" : "last", address, problem));
      }
    }
  }
  return {};
}

}  // namespace kiln::runtime
