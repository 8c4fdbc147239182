#pragma once

/// \file
/// How functions get their names in Python.

#include <cstdint>

#include <tvm/ffi/function.h>

namespace kiln::python {

/// A function of any signature that the binding library can convert, called with converted
/// arguments.
template <auto* kFunction>
void typed(const tvm::ffi::PackedArgs& args, tvm::ffi::Any* result) {
  static const tvm::ffi::Function kTyped = tvm::ffi::Function::FromTyped(kFunction);
  kTyped.CallPacked(args, result);
}

}  // namespace kiln::python

/// Exports a function of (const PackedArgs&, Any*), for arguments of any number.
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

#define KILN_EXPORT_TYPED(name, function) KILN_EXPORT_PACKED(name, kiln::python::typed<&function>)
