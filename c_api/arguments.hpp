#pragma once

/// \file
/// A caller's arguments, in the order of the op's description.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <kiln/engine.hpp>
#include <kiln/kiln.h>

namespace kiln::c_api {

using Order = std::array<std::uint8_t, Problem::kMaxArgs>;

[[noreturn]] void refuse_kind(const kiln_arg& arg, std::size_t index);

/// Throws for a kind that is none.
inline Arg to_arg(const kiln_arg& arg, std::size_t index) {
  if (arg.kind == KILN_ARG_TENSOR) [[likely]] {
    return arg.value.tensor != nullptr ? Arg(*arg.value.tensor) : Arg();
  }
  if (arg.kind == KILN_ARG_INTEGER) {
    return {arg.value.integer};
  }
  if (arg.kind == KILN_ARG_REAL) {
    return {arg.value.real};
  }
  if (arg.kind != KILN_ARG_ABSENT) [[unlikely]] {
    refuse_kind(arg, index);
  }
  return {};
}

/// A call's arguments in the op's order, on the stack. What the caller left out is absent.
class Arguments {
 public:
  /// The caller's, of which there are at most `all`, come in the op's order.
  Arguments(std::size_t all, const kiln_arg* args, std::size_t count) : count_(all) {
    for (std::size_t i = 0; i < count; ++i) {
      std::construct_at(&storage_.slots[i], to_arg(args[i], i));
    }
    std::uninitialized_default_construct_n(storage_.slots.data() + count, all - count);
  }
  Arguments(std::size_t all, const kiln_arg* args, std::size_t count, const Order& order)
      : count_(all) {
    std::uninitialized_default_construct_n(storage_.slots.data(), all);
    for (std::size_t i = 0; i < count; ++i) {
      storage_.slots[order[i]] = to_arg(args[i], i);
    }
  }
  std::span<const Arg> span() const noexcept { return {storage_.slots.data(), count_}; }

 private:
  // Not initialised as a whole: that would take longer than all else a launch does here.
  union Storage {
    Storage() noexcept {}  // NOLINT(modernize-use-equals-default): that would be a deleted one.
    std::array<Arg, Problem::kMaxArgs> slots;
  } storage_;
  std::size_t count_;
};

/// Which of the op's arguments each of the caller's is, by name or by place. Throws for a name
/// that the op has not, one that comes twice, and more than there are.
Order order_of(const Op& op, const kiln_arg* args, std::size_t count);

/// Whether the caller's arguments come in the op's order as they are, which is the usual call:
/// without names, and no more than there are.
inline bool are_in_order(const Op& op, const kiln_arg* args, std::size_t count) noexcept {
  return args != nullptr && count <= op.args.size() &&
         std::all_of(args, args + count, [](const kiln_arg& arg) { return arg.name == nullptr; });
}

/// The caller's arguments in the op's order.
inline Arguments arguments(const Op& op, const kiln_arg* args, std::size_t count) {
  return are_in_order(op, args, count)
             ? Arguments(op.args.size(), args, count)
             : Arguments(op.args.size(), args, count, order_of(op, args, count));
}

/// Of a call that has none of its own.
inline constexpr LaunchOptions kNoOptions{};

/// What the caller's options say.
LaunchOptions launch_options(const kiln_launch_options& options);

}  // namespace kiln::c_api
