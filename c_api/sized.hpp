#pragma once

/// \file
/// Structs that begin with struct_size, from callers of any age.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "c_api/guard.hpp"

namespace kiln::c_api {

/// The caller's struct_size, once it can be one. `what` is the parameter's name.
template <class T>
std::size_t checked_size(const T* caller, const char* what) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, struct_size) == 0);
  std::size_t size = 0;
  std::memcpy(&size, caller, sizeof(size));  // The rest of T may not be there.
  // No version of a struct ends within a word, or is so large: that is a size that was never set.
  constexpr std::size_t kLargest = std::size_t{1} << 16;
  if (size < sizeof(size) || size % alignof(T) != 0 || size > kLargest) [[unlikely]] {
    refuse(std::string(what) + "->struct_size is " + std::to_string(size) +
           "; set it to the struct's size, as KILN_INIT does");
  }
  return size;
}

/// What the caller set, zeros for what its version has not; all zeros for null.
template <class T>
T read_sized(const T* caller, const char* what) {
  T value{};
  if (caller == nullptr) {
    return value;
  }
  const std::size_t size = checked_size(caller, what);
  std::memcpy(&value, caller, std::min(size, sizeof(T)));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(caller);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char byte) { return byte != 0; })) {
    refuse(std::string(what) + " uses fields that Kiln " + KILN_VERSION +
           " does not know: its struct_size is " + std::to_string(size) + ", and this library's " +
           std::to_string(sizeof(T)));
  }
  return value;
}

/// Gives the caller as much of `value` as it has room for, and zeros beyond.
template <class T>
void write_sized(T value, T* caller, const char* what) {
  const std::size_t size = checked_size(&required(caller, what), what);
  value.struct_size = size;
  std::memcpy(static_cast<void*>(caller), &value, std::min(size, sizeof(T)));
  if (size > sizeof(T)) {
    std::memset(reinterpret_cast<unsigned char*>(caller) + sizeof(T), 0, size - sizeof(T));
  }
}

/// A KILN_DEFAULT, KILN_ON or KILN_OFF.
inline bool switched_on(int value, bool by_default, const char* what) {
  if (value < KILN_DEFAULT || value > KILN_OFF) [[unlikely]] {
    refuse(std::string(what) + " is " + std::to_string(value) +
           "; it must be KILN_DEFAULT, KILN_ON or KILN_OFF");
  }
  return value == KILN_DEFAULT ? by_default : value == KILN_ON;
}

}  // namespace kiln::c_api
