#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

#include <kiln/error.hpp>

namespace kiln {

/// Why something failed, as a value. Lower layers return it; only the public door turns it into an
/// exception.
struct Failure {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Failure>;

using Status = Result<void>;

inline tl::unexpected<Failure> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Failure>(Failure{code, std::move(message)});
}

/// The boundary: the value, or the failure thrown as kiln::Error.
template <class T>
T value_or_throw(Result<T>&& result) {
  if (!result) {
    throw Error(result.error().code, result.error().message);
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(*result);
  }
}

}  // namespace kiln
