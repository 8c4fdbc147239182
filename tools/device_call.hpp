#pragma once

/// \file
/// A host call's tensors on the device, and its launch.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <kiln/engine.hpp>

#include "runtime/driver/handles.hpp"
#include "tools/host_call.hpp"

namespace kiln::tools {

/// Owns the device memory of one set of tensors and the workspace. The engine and the host call
/// must outlive it. Throws Error.
class DeviceCall {
 public:
  /// Uploads the inputs and poisons the outputs. The device's context must be current.
  DeviceCall(Engine& engine, const std::shared_ptr<const runtime::Driver>& driver,
             const HostCall& call);

  /// Gives tensors that are updated in place their first values again, and every byte of the
  /// other outputs and of the workspace the value `poison`. Done when it returns.
  void reset(unsigned char poison);
  void launch(runtime::Stream& stream, bool pdl) const { launch(stream.get(), pdl); }
  void launch(CUstream stream, bool pdl) const;
  /// Of the tensor with this index among the host call's.
  runtime::DeviceMemory& memory(std::size_t tensor) { return memory_[tensor]; }
  /// The bytes of the tensor with this index among the host call's.
  std::vector<std::byte> download(std::size_t tensor) const;

 private:
  void upload(std::size_t tensor);

  Engine* engine_;
  std::shared_ptr<const runtime::Driver> driver_;
  const HostCall* call_;
  OpHandle op_;
  std::vector<runtime::DeviceMemory> memory_;
  std::vector<DLTensor> tensors_;  // Their shapes are the host call's.
  std::vector<Arg> args_;          // Point to tensors_.
  std::size_t workspace_bytes_ = 0;
  std::vector<runtime::DeviceMemory> workspace_;  // None or one.
};

}  // namespace kiln::tools
