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
// is. A failure where the driver cannot say.
Result<std::string> foreign(const Driver& driver, CUdeviceptr address, const DeviceInfo& device,
                    bool host_memory) {
  const DriverApi& api = driver.api();
  unsigned managed = 0;
  if (api.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) ==
          CUDA_SUCCESS &&
      managed != 0) {
    return std::string();
  }
  unsigned type = 0;
  CUresult result =
      api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (result == CUDA_ERROR_INVALID_VALUE) {
    return std::string("is no memory that the CUDA driver knows");
  }
  if (result == CUDA_SUCCESS && type != CU_MEMORYTYPE_DEVICE) {
    return std::string(host_memory ? "" : "is host memory");
  }
  int ordinal = 0;
  if (result == CUDA_SUCCESS) {
    result = api.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  }
  if (Status status = driver.check("cuPointerGetAttribute", result); !status) {
    return tl::unexpected(std::move(status.error()));
  }
  return ordinal == device.ordinal ? std::string() : fmt::format("is memory of device {}", ordinal);
}

std::string declared_place(const DLTensor& tensor, const DeviceInfo& device) {
  return tensor.device.device_type == kDLCUDAHost ? "in CUDA host memory"
                                                  : fmt::format("on CUDA device {}", device.ordinal);
}

}  // namespace

Status check_pointers(const Driver& driver, const registry::BoundOp& bound,
                      std::span<const Arg> args, const DeviceInfo& device) {
  if (Status status = driver.check_process(); !status) {
    return status;
  }
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
      const Result<std::string> problem =
          foreign(driver, address, device, bound.op.args[i].host_memory);
      if (!problem) {
        return fail(problem.error().code, bound.op.name + ": " + problem.error().message);
      }
      if (!problem->empty()) {
        return fail(
            ErrorCode::kInvalidArgument,
            fmt::format("{}, argument {}: declared {}, but its {} byte ({:#x}) {}", bound.op.name,
                        bound.op.args[i].name, declared_place(tensor, device),
                        address == first ? "first" : "last", address, *problem));
      }
    }
  }
  return {};
}

}  // namespace kiln::runtime
