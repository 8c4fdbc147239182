#pragma once

/// \file
/// What the C++ door needs of its compiler, and which library it found.

#if __cplusplus < 201703L
#error "kiln/kiln.hpp needs C++17: compile with -std=c++17 or newer, or include kiln/kiln.h"
#endif

#if defined(__GNUC__) && !defined(__cpp_exceptions)
#error "kiln/kiln.hpp throws: compile with exceptions, or include kiln/kiln.h"
#endif

#include <cstdint>

#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

/// The version of the library that runs, as 10000 * major + 100 * minor + patch. That of these
/// headers is KILN_VERSION_NUMBER, and in words KILN_VERSION.
inline std::int32_t library_version() noexcept {
  return kiln_version();
}

namespace detail {

/// A zeroed struct of the C interface that knows its size.
template <class T>
T sized() noexcept {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

}  // namespace detail
}  // namespace abi0
}  // namespace kiln
