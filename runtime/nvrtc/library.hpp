#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nvrtc.h>

#include "base/result.hpp"
#include "runtime/nvrtc/compiler.hpp"

namespace kiln::runtime {

/// libnvrtc's functions, as nvrtc.h declares them.
struct NvrtcApi {
  decltype(&::nvrtcVersion) version = nullptr;
  decltype(&::nvrtcGetErrorString) error_string = nullptr;
  decltype(&::nvrtcGetNumSupportedArchs) architecture_count = nullptr;
  decltype(&::nvrtcGetSupportedArchs) architectures = nullptr;
  decltype(&::nvrtcCreateProgram) create_program = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&::nvrtcAddNameExpression) add_name_expression = nullptr;
  decltype(&::nvrtcCompileProgram) compile_program = nullptr;
  decltype(&::nvrtcGetLoweredName) lowered_name = nullptr;
  decltype(&::nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) log = nullptr;
  decltype(&::nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) cubin = nullptr;
  decltype(&::nvrtcGetPTXSize) ptx_size = nullptr;
  decltype(&::nvrtcGetPTX) ptx = nullptr;

  /// Takes every function from a dlopen handle; the failure names the first one that is missing.
  static Result<NvrtcApi> resolve(void* handle);
};

struct Nvrtc::Library {
  Toolchain toolchain;
  NvrtcApi api;
  std::vector<int> architectures;  ///< Compute capabilities it compiles for, such as 90 and 103.
};

}  // namespace kiln::runtime
