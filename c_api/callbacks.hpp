#pragma once

/// \file
/// What a warm-up and a prebuild tell their caller. Their requests have the same callbacks.

#include <cstddef>
#include <string>

#include <fmt/format.h>

#include <kiln/error.hpp>
#include <kiln/kiln.h>

namespace kiln::c_api {

template <class Request>
bool wants_progress(const Request& given) noexcept {
  return given.progress != nullptr || given.stop != nullptr;
}

/// Throws Error(kCancelled) when the caller wants no more.
template <class Request>
void tell_progress(const Request& given, std::size_t done, std::size_t total,
                   const std::string& name) {
  if (given.progress != nullptr) {
    given.progress(done, total, name.c_str(), given.user);
  }
  if (given.stop != nullptr && given.stop(given.user) != 0) {
    throw Error(ErrorCode::kCancelled,
                fmt::format("stopped after {} of {}, as asked for", done, total));
  }
}

template <class Request>
void tell_failure(const Request& given, const std::string& name, ErrorCode code,
                  const std::string& message) {
  if (given.failed != nullptr) {
    given.failed(name.c_str(), static_cast<kiln_status>(code), message.c_str(), given.user);
  }
}

}  // namespace kiln::c_api
