#include "tools/device_call.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace kiln::tools {
namespace {

// A NaN of every floating-point type, which no reference of these inputs gives.
constexpr unsigned char kPoison = 0xFF;

runtime::DeviceMemory allocate(const std::shared_ptr<const runtime::Driver>& driver,
                               std::size_t bytes) {
  return value_or_throw(runtime::DeviceMemory::allocate(driver, std::max<std::size_t>(bytes, 1)));
}

// Without strides: contiguous.
DLTensor view(const HostTensor& tensor, void* data) {
  DLTensor out{};
  out.data = data;
  out.device = {kDLCUDA, 0};
  out.ndim = static_cast<int>(tensor.shape.size());
  out.dtype = dtype_to_dlpack(tensor.dtype);
  out.shape = const_cast<std::int64_t*>(tensor.shape.data());  // DLPack knows no const; only read.
  return out;
}

}  // namespace

DeviceCall::DeviceCall(Engine& engine, const std::shared_ptr<const runtime::Driver>& driver,
                       const HostCall& call)
    : engine_(&engine), driver_(driver), call_(&call), op_(engine.op(call.op().name)) {
  for (const HostTensor& tensor : call.tensors()) {
    memory_.push_back(allocate(driver, tensor.bytes()));
    tensors_.push_back(view(tensor, memory_.back().data()));
  }
  std::size_t next = 0;
  for (const ArgSpec& arg : call.op().args) {
    if (!call.has(arg)) {
      args_.emplace_back();
    } else if (arg.is_tensor()) {
      args_.emplace_back(tensors_[next++]);
    } else if (arg.scalar == ScalarType::kF32) {
      args_.emplace_back(call.scalar(arg.name));
    } else {
      args_.emplace_back(static_cast<std::int64_t>(call.scalar(arg.name)));
    }
  }
  workspace_bytes_ = engine.workspace_bytes(op_, args_);
  if (workspace_bytes_ > 0) {
    workspace_.push_back(allocate(driver, workspace_bytes_));
  }
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    upload(i);
  }
  reset(kPoison);
}

void DeviceCall::upload(std::size_t tensor) {
  const HostTensor& host = call_->tensors()[tensor];
  if (host.is_input() && host.bytes() > 0) {
    value_or_throw(memory_[tensor].upload(host.data.data(), host.bytes()));
  }
}

void DeviceCall::reset(unsigned char poison) {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const HostTensor& host = call_->tensors()[i];
    if (!host.is_input()) {
      value_or_throw(memory_[i].fill(poison));
    } else if (host.is_output()) {
      upload(i);
    }
  }
  for (runtime::DeviceMemory& workspace : workspace_) {
    value_or_throw(workspace.fill(poison));
  }
  // Fills return before they are done, and a launch on another stream would overtake them.
  value_or_throw(
      driver_->check("cuStreamSynchronize", driver_->api().cuStreamSynchronize(nullptr)));
}

void DeviceCall::launch(CUstream stream, bool pdl) const {
  void* const workspace = workspace_.empty() ? nullptr : workspace_.front().data();
  engine_->launch(op_, args_, stream,
                  {.pdl = pdl, .workspace = workspace, .workspace_bytes = workspace_bytes_});
}

std::vector<std::byte> DeviceCall::download(std::size_t tensor) const {
  std::vector<std::byte> out(call_->tensors()[tensor].bytes());
  if (!out.empty()) {
    value_or_throw(memory_[tensor].download(out.data(), out.size()));
  }
  return out;
}

}  // namespace kiln::tools
