#pragma once

/// \file
/// One argument of a call.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <dlpack/dlpack.h>

#include <kiln/cpp/tensor.hpp>
#include <kiln/cpp/view.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

/// A tensor, an integer (also for a bool), a real number, or nothing: an optional argument that is
/// left out. It is a kiln_arg and refers to the tensor, which must outlive the call, not the
/// launched work.
///
/// A call's arguments come in the op's order, {x, w, 1e-6, out}, where those at the end may be left
/// out; or all of them with their names and in any order, {{"out", out}, {"x", x}}. A name must
/// live as long as the Arg.
class Arg {
 public:
  Arg() noexcept = default;
  Arg(const DLTensor& tensor) noexcept : c_(kiln_tensor(nullptr, &tensor)) {}
  /// Null is absent.
  Arg(const DLTensor* tensor) noexcept : c_(kiln_tensor(nullptr, tensor)) {}
  Arg(const Tensor& tensor) noexcept : Arg(tensor.dlpack()) {}
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  Arg(T value) noexcept : c_(kiln_integer(nullptr, static_cast<std::int64_t>(value))) {}
  template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
  Arg(T value) noexcept : c_(kiln_real(nullptr, static_cast<double>(value))) {}
  /// An argument by its name.
  Arg(const char* name, const Arg& value) noexcept : c_(value.c_) { c_.name = name; }

  const kiln_arg& c() const noexcept { return c_; }

 private:
  kiln_arg c_{};
};

static_assert(std::is_standard_layout_v<Arg> && std::is_trivially_copyable_v<Arg>);
static_assert(sizeof(Arg) == sizeof(kiln_arg) && alignof(Arg) == alignof(kiln_arg));

/// A call's arguments.
using Args = View<Arg>;

namespace detail {

/// The same array as C sees it.
inline const kiln_arg* c_args(const Args& args) noexcept {
  return args.empty() ? nullptr : &args.data()->c();
}

}  // namespace detail
}  // namespace abi0
}  // namespace kiln
