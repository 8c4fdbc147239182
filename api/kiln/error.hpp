#pragma once

/// \file
/// The one exception type that leaves Kiln's C++ door, and its codes.

#include <stdexcept>
#include <string>

namespace kiln {

/// What kind of thing went wrong. Values are stable: they will be the C ABI's return codes, so new
/// codes are appended and none is renumbered.
enum class ErrorCode : int {
  kInvalidArgument = 1,      ///< A call outside an op's contract, or an unusable option.
  kUnknownOp = 2,            ///< No op of that name is registered.
  kDuplicateOp = 3,          ///< An op of that name is registered already.
  kUnsupportedTarget = 4,    ///< The op does not serve this architecture, or NVRTC cannot make it.
  kCompilerUnavailable = 5,  ///< Something must be compiled and no usable NVRTC was found.
  kCompileFailed = 6,        ///< NVRTC ran and failed; the message carries its whole log.
  kDriverUnavailable = 7,    ///< No usable CUDA driver (libcuda.so.1) or no device.
  kDriverError = 8,        ///< A CUDA driver call failed; the message names the call and the code.
  kIo = 9,                 ///< A file that the caller named could not be read or written.
  kInternal = 10,          ///< A broken invariant of Kiln itself; please report it.
  kCompileForbidden = 11,  ///< A kernel is in no cache, and the policy forbids compiling it.
  kCompilerLost = 12,      ///< The compiler crashed or did not finish in time, twice in a row.
  kCancelled = 13,         ///< Given up unfinished, because somebody asked for that.
  kNotLoaded = 14,  ///< A kernel is not loaded and may not be now: its stream is being captured, or
                    ///< its plan's engine has unloaded it.
  kNotStored = 15,  ///< Compiled, and no cache directory could take it.
};

/// The code's name as it appears in messages and JSON, for example "invalid_argument".
const char* error_code_name(ErrorCode code) noexcept;

/// Thrown by every function of the public C++ API that can fail, and by nothing else.
/// what() says what was asked, what was found, and what the reader can do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace kiln
