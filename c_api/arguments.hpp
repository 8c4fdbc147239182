#pragma once

/// \file
/// A caller's arguments, in the order of the op's description.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <kiln/engine.hpp>
#include <kiln/kiln.h>

namespace kiln::c_api {

using Order = std::array<std::uint8_t, Problem::kMaxArgs>;

/// As many absent arguments as the op has, on the stack.
class Arguments {
 public:
  explicit Arguments(std::size_t count) noexcept : count_(count) {
    std::uninitialized_default_construct_n(storage_.slots.data(), count);
  }
  Arg& operator[](std::size_t index) noexcept { return storage_.slots[index]; }
  std::span<const Arg> span() const noexcept { return {storage_.slots.data(), count_}; }

 private:
  // Not initialised as a whole: that would take longer than all else a launch does here.
  union Storage {
    Storage() noexcept {}  // NOLINT(modernize-use-equals-default): that would be a deleted one.
    std::array<Arg, Problem::kMaxArgs> slots;
  } storage_;
  std::size_t count_;
};

/// Throws for a kind that is none.
Arg to_arg(const kiln_arg& arg, std::size_t index);

/// Which of the op's arguments each of the caller's is, by name or by place. Throws for a name
/// that the op has not, one that comes twice, and more than there are.
Order order_of(const Op& op, const kiln_arg* args, std::size_t count);

/// The caller's arguments in the op's order.
Arguments arguments(const Op& op, const kiln_arg* args, std::size_t count, const Order& order);
Arguments arguments(const Op& op, const kiln_arg* args, std::size_t count);

/// What the caller's options say; null for the defaults.
LaunchOptions launch_options(const kiln_launch_options* options);

}  // namespace kiln::c_api
