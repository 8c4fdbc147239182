#pragma once

/// \file
/// From a kiln_status to the exception that Python sees.

#include <string>
#include <utility>

#include <tvm/ffi/error.h>

#include <kiln/kiln.h>

#include "python/binding/json.hpp"

namespace kiln::python {

/// A message of the library's, which names options as C++ has them, in the words of Python's.
inline std::string in_words_of_python(std::string message) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = message.find(from); at != std::string::npos;
         at = message.find(from, at + to.size())) {
      message.replace(at, from.size(), to);
    }
  };
  replace("name the file in EngineOptions::driver", "name the file: kiln.Engine(driver=...)");
  replace("EngineOptions::compile_timeout", "compile_timeout_seconds of kiln.Engine");
  replace("EngineOptions::", "kiln.Engine's option ");
  replace("Engine::prebuild", "kiln.Engine's prebuild");
  replace("LaunchOptions::", "");
  return readable(std::move(message));
}

/// Throws for anything but KILN_OK. The kind is "kiln." and the status's name; src/kiln/_errors.py
/// knows the class for each.
inline void check(kiln_status status) {
  if (status != KILN_OK) [[unlikely]] {
    throw tvm::ffi::Error(std::string("kiln.") + kiln_status_name(status),
                          in_words_of_python(kiln_last_error_message()), "");
  }
}

[[noreturn]] inline void refuse(const std::string& message) {
  throw tvm::ffi::Error("kiln.invalid_argument", message, "");
}

}  // namespace kiln::python
