#include "c_api/guard.hpp"

namespace kiln::c_api {
namespace {

// What a C interface with messages cannot do without: one per thread, as errno is.
thread_local const char* last_message = "";
thread_local bool ended = false;
thread_local KeptText last_text(ended);

constexpr bool same(int status, ErrorCode code) {
  return status == static_cast<int>(code);
}
static_assert(same(KILN_ERROR_INVALID_ARGUMENT, ErrorCode::kInvalidArgument) &&
              same(KILN_ERROR_UNKNOWN_OP, ErrorCode::kUnknownOp) &&
              same(KILN_ERROR_DUPLICATE_OP, ErrorCode::kDuplicateOp) &&
              same(KILN_ERROR_UNSUPPORTED_TARGET, ErrorCode::kUnsupportedTarget) &&
              same(KILN_ERROR_COMPILER_UNAVAILABLE, ErrorCode::kCompilerUnavailable) &&
              same(KILN_ERROR_COMPILE_FAILED, ErrorCode::kCompileFailed) &&
              same(KILN_ERROR_DRIVER_UNAVAILABLE, ErrorCode::kDriverUnavailable) &&
              same(KILN_ERROR_DRIVER_ERROR, ErrorCode::kDriverError) &&
              same(KILN_ERROR_IO, ErrorCode::kIo) &&
              same(KILN_ERROR_INTERNAL, ErrorCode::kInternal) &&
              same(KILN_ERROR_COMPILE_FORBIDDEN, ErrorCode::kCompileForbidden) &&
              same(KILN_ERROR_COMPILER_LOST, ErrorCode::kCompilerLost) &&
              same(KILN_ERROR_CANCELLED, ErrorCode::kCancelled) &&
              same(KILN_ERROR_NOT_LOADED, ErrorCode::kNotLoaded) &&
              same(KILN_ERROR_NOT_STORED, ErrorCode::kNotStored));

}  // namespace

kiln_status failed(kiln_status status, const char* message) noexcept {
  try {
    last_message = ended ? "the call failed while its thread was ending, too late to say how"
                         : last_text.keep(message);
  } catch (...) {
    last_message = "the call failed, and there was no memory left to say how";
  }
  return status;
}

void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void refuse_null(const char* what) {
  refuse(std::string(what) + " is NULL");
}

void refuse_null_array(const char* what, std::size_t count) {
  refuse(std::string(what) + " is NULL, and its count is " + std::to_string(count));
}

}  // namespace kiln::c_api

const char* kiln_last_error_message(void) {
  return kiln::c_api::last_message;
}

const char* kiln_status_name(kiln_status status) {
  return status == KILN_OK ? "ok" : kiln::error_code_name(static_cast<kiln::ErrorCode>(status));
}

int32_t kiln_version(void) {
  return KILN_VERSION_NUMBER;
}
