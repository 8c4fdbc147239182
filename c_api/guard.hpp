#pragma once

/// \file
/// The border between exceptions and status codes.

#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include <kiln/error.hpp>
#include <kiln/kiln.h>

namespace kiln::c_api {

/// Keeps what kiln_last_error_message says on this thread, and gives the status back.
kiln_status failed(kiln_status status, const char* message) noexcept;

/// Runs the body of a function of the interface: a status for whatever it throws. Costs nothing
/// where it throws nothing.
template <class Body>
[[gnu::always_inline]] inline kiln_status guard(const Body& body) noexcept {
  try {
    body();
    return KILN_OK;
  } catch (const Error& error) {
    return failed(static_cast<kiln_status>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return failed(KILN_ERROR_INTERNAL, "out of memory");
  } catch (const std::exception& error) {
    return failed(KILN_ERROR_INTERNAL, error.what());
  } catch (...) {
    return failed(KILN_ERROR_INTERNAL, "something was thrown that is no exception of Kiln's");
  }
}

[[noreturn]] void refuse(const std::string& message);
[[noreturn]] void refuse_null(const char* what);
[[noreturn]] void refuse_null_array(const char* what, std::size_t count);

/// What a function says that is asked while its thread ends.
inline constexpr const char* kTooLate = "asked while its thread was ending, too late to say why";

/// A text that a function hands out, kept until its thread asks again. `ended`: set when the text
/// goes with its thread; objects that outlive it, such as static ones, may still ask.
class KeptText {
 public:
  explicit KeptText(bool& ended) noexcept : ended_(ended) {}
  ~KeptText() { ended_ = true; }
  KeptText(const KeptText&) = delete;
  KeptText& operator=(const KeptText&) = delete;

  const char* keep(std::string text) noexcept {
    text_ = std::move(text);
    return text_.c_str();
  }

 private:
  bool& ended_;
  std::string text_;
};

/// Refuses a null where there must be something; `what` is the parameter's name.
template <class T>
T& required(T* pointer, const char* what) {
  if (pointer == nullptr) [[unlikely]] {
    refuse_null(what);
  }
  return *pointer;
}

/// The same for an array, which may be null when it is empty.
inline void require_array(const void* array, std::size_t count, const char* what) {
  if (array == nullptr && count != 0) [[unlikely]] {
    refuse_null_array(what, count);
  }
}

/// What is reserved must be zero: a later version may give it a meaning.
template <class T>
void require_zero(T reserved, const std::string& what) {
  if (reserved != 0) [[unlikely]] {
    refuse(what + " must be zero");
  }
}

}  // namespace kiln::c_api
