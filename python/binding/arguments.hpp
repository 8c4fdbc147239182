#pragma once

/// \file
/// Arguments as Python hands them over, as kiln.h takes them.

#include <array>
#include <cstdint>
#include <string>

#include <tvm/ffi/any.h>

#include <kiln/kiln.h>

#include "python/binding/engine.hpp"

namespace kiln::python {

/// What is thrown for a value that is neither a tensor nor a number.
struct NoArgument {
  std::int32_t index;
  std::string type;
};

/// The arguments of one call, in the op's order; without names. Refers to the tensors that it was
/// made from. Lives on the stack and allocates nothing.
class Arguments {
 public:
  /// Throws NoArgument.
  Arguments(const tvm::ffi::AnyView* args, std::int32_t count);

  const kiln_arg* data() const noexcept { return slots_.data(); }
  std::size_t size() const noexcept { return count_; }
  /// Of the first tensor that is on a CUDA device; device_type is kDLCPU when there is none.
  DLDevice device() const noexcept { return device_; }
  /// The producer's current stream, which the binding library notes for the first of its tensors.
  kiln_stream current_stream() const noexcept;

 private:
  static constexpr std::size_t kMost = 32;  // As the registry says.

  void set_tensor(kiln_arg& slot, const DLTensor* tensor) noexcept;

  std::array<kiln_arg, kMost> slots_;
  std::size_t count_;
  DLDevice device_{kDLCPU, 0};
};

/// The same for an op, with an exception for Python that names the argument.
Arguments arguments_of(const Use& use, const std::string& op, const tvm::ffi::AnyView* args,
                       std::int32_t count);

}  // namespace kiln::python
