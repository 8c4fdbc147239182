#pragma once

/// \file
/// From a kiln_status to the exception that Python sees.

#include <string>

#include <tvm/ffi/error.h>

#include <kiln/kiln.h>

namespace kiln::python {

/// Throws for anything but KILN_OK. The kind is "kiln." and the status's name; src/kiln/_errors.py
/// knows the class for each.
inline void check(kiln_status status) {
  if (status != KILN_OK) [[unlikely]] {
    throw tvm::ffi::Error(std::string("kiln.") + kiln_status_name(status),
                          kiln_last_error_message(), "");
  }
}

[[noreturn]] inline void refuse(const std::string& message) {
  throw tvm::ffi::Error("kiln.invalid_argument", message, "");
}

}  // namespace kiln::python
