#include "python/binding/arguments.hpp"

#include <string>

#include <tvm/ffi/extra/c_env_api.h>

#include "python/binding/error.hpp"

namespace kiln::python {
Arguments::Arguments(const tvm::ffi::AnyView* args, std::int32_t count)
    : count_(static_cast<std::size_t>(count)) {
  if (count < 0 || count_ > kMost) [[unlikely]] {
    refuse(std::to_string(count) + " arguments came, and no op has more than " +
           std::to_string(kMost));
  }
  for (std::int32_t i = 0; i < count; ++i) {
    kiln_arg& slot = slots_[static_cast<std::size_t>(i)];
    slot.name = nullptr;
    slot.reserved = 0;
    const TVMFFIAny any = args[i].CopyToTVMFFIAny();
    switch (any.type_index) {
      case kTVMFFITensor:
        set_tensor(slot, TVMFFITensorGetDLTensorPtr(any.v_obj));
        break;
      case kTVMFFIDLTensorPtr:
        set_tensor(slot, static_cast<const DLTensor*>(any.v_ptr));
        break;
      case kTVMFFINone:
        slot.kind = KILN_ARG_ABSENT;
        slot.value.tensor = nullptr;
        break;
      case kTVMFFIInt:
      case kTVMFFIBool:
        slot.kind = KILN_ARG_INTEGER;
        slot.value.integer = any.v_int64;
        break;
      case kTVMFFIFloat:
        slot.kind = KILN_ARG_REAL;
        slot.value.real = any.v_float64;
        break;
      default:
        throw NoArgument{i, args[i].GetTypeKey()};
    }
  }
}

void Arguments::set_tensor(kiln_arg& slot, const DLTensor* tensor) noexcept {
  slot.kind = KILN_ARG_TENSOR;
  slot.value.tensor = tensor;
  const DLDeviceType type = tensor->device.device_type;
  if (device_.device_type == kDLCPU && (type == kDLCUDA || type == kDLCUDAManaged)) {
    device_ = {kDLCUDA, tensor->device.device_id};
  }
}

kiln_stream Arguments::current_stream() const noexcept {
  return device_.device_type == kDLCUDA ? TVMFFIEnvGetStream(kDLCUDA, device_.device_id) : nullptr;
}

namespace {

// As Python calls what the binding library has names of its own for.
std::string python_type(const std::string& type) {
  if (type == "ffi.BigInt") {
    return "an integer of more than 64 bits";
  }
  return type == "ffi.SmallStr" || type == "ffi.String" ? "a str" : "one of " + type;
}

}  // namespace

Arguments arguments_of(const Use& use, const std::string& op, const tvm::ffi::AnyView* args,
                       std::int32_t count) {
  try {
    return {args, count};
  } catch (const NoArgument& wrong) {
    kiln_op_arg_info info = KILN_INIT(kiln_op_arg_info);
    check(kiln_op_arg_at(use.engine(), op.c_str(), static_cast<std::size_t>(wrong.index), &info));
    throw tvm::ffi::Error("kiln.argument_type",
                          op + ": argument \"" + info.name +
                              "\" must be a tensor or a number, found " + python_type(wrong.type),
                          "");
  }
}

}  // namespace kiln::python
