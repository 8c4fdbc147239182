#pragma once

/// \file
/// How functions get their names in Python.

#include <tvm/ffi/function.h>

/// Exports a function of (PackedArgs, Any*), for arguments of any number. Typed ones go through
/// TVM_FFI_DLL_EXPORT_TYPED_FUNC.
#define KILN_EXPORT_PACKED(name, function)                                                  \
  extern "C" {                                                                              \
  TVM_FFI_DLL_EXPORT int __tvm_ffi_##name(void*, const TVMFFIAny* args, std::int32_t count, \
                                          TVMFFIAny* result) {                              \
    TVM_FFI_SAFE_CALL_BEGIN();                                                              \
    function(tvm::ffi::PackedArgs(reinterpret_cast<const tvm::ffi::AnyView*>(args), count), \
             reinterpret_cast<tvm::ffi::Any*>(result));                                     \
    TVM_FFI_SAFE_CALL_END();                                                                \
  }                                                                                         \
  }
