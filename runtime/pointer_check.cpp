#include "runtime/pointer_check.hpp"

#include <bit>
#include <optional>
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
  CUresult result = api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
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
  return tensor.device.device_type == kDLCUDAHost
             ? "in CUDA host memory"
             : fmt::format("on CUDA device {}", device.ordinal);
}

// Bytes [first, last].
struct Range {
  CUdeviceptr first = 0;
  CUdeviceptr last = 0;
};

std::optional<Range> range_of(const DLTensor& tensor) {
  const std::uint64_t bytes = extent_bytes(tensor);
  if (bytes == 0) {
    return std::nullopt;
  }
  const CUdeviceptr first = std::bit_cast<CUdeviceptr>(tensor.data) + tensor.byte_offset;
  return Range{first, first + bytes - 1};
}

// `declared`: of which memory the caller says that it is.
Status check_range(const Driver& driver, const Range& range, const std::string& what,
                   const std::string& declared, const DeviceInfo& device, bool host_memory) {
  for (const CUdeviceptr address : {range.first, range.last}) {
    const Result<std::string> problem = foreign(driver, address, device, host_memory);
    if (!problem) {
      return fail(problem.error().code, what + ": " + problem.error().message);
    }
    if (!problem->empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: declared {}, but its {} byte ({:#x}) {}", what, declared,
                              address == range.first ? "first" : "last", address, *problem));
    }
  }
  return {};
}

std::string name_of_arg(const registry::BoundOp& bound, std::size_t i) {
  return fmt::format("{}, argument {}", bound.op.name, bound.op.args[i].name);
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
    const std::optional<Range> range = range_of(tensor);
    if (!range) {
      continue;
    }
    Status status =
        check_range(driver, *range, name_of_arg(bound, i), declared_place(tensor, device), device,
                    bound.op.args[i].host_memory);
    if (!status) {
      return status;
    }
  }
  return {};
}

Status check_workspace(const Driver& driver, const registry::BoundOp& bound,
                       std::span<const Arg> args, const void* workspace, std::size_t bytes,
                       const DeviceInfo& device) {
  if (workspace == nullptr || bytes == 0) {
    return {};
  }
  const auto first = std::bit_cast<CUdeviceptr>(workspace);
  const Range range{first, first + bytes - 1};
  const std::string what = bound.op.name + ", LaunchOptions::workspace";
  Status status = check_range(driver, range, what, fmt::format("on CUDA device {}", device.ordinal),
                              device, false);
  for (std::size_t i = 0; status && i < args.size(); ++i) {
    const std::optional<Range> other =
        args[i].kind() == Arg::Kind::kTensor ? range_of(args[i].tensor()) : std::nullopt;
    if (other && range.first <= other->last && other->first <= range.last) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: its bytes {:#x} to {:#x} overlap those of argument {}, {:#x} to "
                              "{:#x}",
                              what, range.first, range.last, bound.op.args[i].name, other->first,
                              other->last));
    }
  }
  return status;
}

}  // namespace kiln::runtime
