#include <kiln/error.hpp>

namespace kiln {

const char* error_code_name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kUnknownOp:
      return "unknown_op";
    case ErrorCode::kDuplicateOp:
      return "duplicate_op";
    case ErrorCode::kUnsupportedTarget:
      return "unsupported_target";
    case ErrorCode::kCompilerUnavailable:
      return "compiler_unavailable";
    case ErrorCode::kCompileFailed:
      return "compile_failed";
    case ErrorCode::kDriverUnavailable:
      return "driver_unavailable";
    case ErrorCode::kDriverError:
      return "driver_error";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kInternal:
      return "internal";
    case ErrorCode::kCompileForbidden:
      return "compile_forbidden";
    case ErrorCode::kCompilerLost:
      return "compiler_lost";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kNotLoaded:
      return "not_loaded";
    case ErrorCode::kNotStored:
      return "not_stored";
  }
  return "unknown";
}

}  // namespace kiln
