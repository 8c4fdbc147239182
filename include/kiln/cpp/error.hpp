#pragma once

/// \file
/// The one exception type of the C++ door, and its codes.

#include <stdexcept>
#include <string>

#include <kiln/cpp/version.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

/// What kind of thing went wrong: kiln.h's codes, which says more of each. A newer library may give
/// one that is not listed here.
enum class ErrorCode : kiln_status {
  kInvalidArgument = KILN_ERROR_INVALID_ARGUMENT,
  kUnknownOp = KILN_ERROR_UNKNOWN_OP,
  kDuplicateOp = KILN_ERROR_DUPLICATE_OP,
  kUnsupportedTarget = KILN_ERROR_UNSUPPORTED_TARGET,
  kCompilerUnavailable = KILN_ERROR_COMPILER_UNAVAILABLE,
  kCompileFailed = KILN_ERROR_COMPILE_FAILED,
  kDriverUnavailable = KILN_ERROR_DRIVER_UNAVAILABLE,
  kDriverError = KILN_ERROR_DRIVER_ERROR,
  kIo = KILN_ERROR_IO,
  kInternal = KILN_ERROR_INTERNAL,
  kCompileForbidden = KILN_ERROR_COMPILE_FORBIDDEN,
  kCompilerLost = KILN_ERROR_COMPILER_LOST,
  kCancelled = KILN_ERROR_CANCELLED,
  kNotLoaded = KILN_ERROR_NOT_LOADED,
  kNotStored = KILN_ERROR_NOT_STORED,
};

/// "invalid_argument", ...; "unknown" for what is no code. Valid for ever.
inline const char* error_code_name(ErrorCode code) noexcept {
  return kiln_status_name(static_cast<kiln_status>(code));
}

/// What every function that fails throws. what() says what was asked, what was found, and what can
/// be done. Visible, so that a library that was built to hide its names can throw it to its user.
class __attribute__((visibility("default"))) Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

namespace detail {

/// Throws what the last failure on this thread was.
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_last(kiln_status status) {
  throw Error(static_cast<ErrorCode>(status), kiln_last_error_message());
}

inline void check(kiln_status status) {
  if (status != KILN_OK) {
    throw_last(status);
  }
}

}  // namespace detail
}  // namespace abi0
}  // namespace kiln
