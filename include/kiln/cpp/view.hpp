#pragma once

/// \file
/// What functions take arrays and names as.

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include <kiln/cpp/version.hpp>

namespace kiln {
inline namespace abi0 {

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
/// An array that is somebody else's: a list in braces, a C array, or anything with data() and
/// size(), such as a std::vector. For parameters: a list in braces is gone when the call returns.
template <class T>
class View {
  template <class C>
  using Pointer = std::remove_pointer_t<decltype(std::declval<const C&>().data())> (*)[];

 public:
  View() noexcept = default;
  View(const T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <std::size_t N>
  View(const T (&array)[N]) noexcept : data_(array), size_(N) {}
  template <class C, class = std::enable_if_t<std::is_convertible_v<Pointer<C>, const T (*)[]>>>
  View(const C& container) noexcept : data_(container.data()), size_(container.size()) {}
  View(std::initializer_list<T> list) noexcept : data_(list.begin()), size_(list.size()) {}

  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }

 private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/// A name that ends in a zero byte, as C wants it, from either kind of string.
class Name {
 public:
  Name(const char* text) noexcept : text_(text) {}
  Name(const std::string& text) noexcept : text_(text.c_str()) {}
  const char* c_str() const noexcept { return text_; }

 private:
  const char* text_;
};

}  // namespace abi0
}  // namespace kiln
