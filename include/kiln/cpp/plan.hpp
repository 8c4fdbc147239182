#pragma once

/// \file
/// A call resolved once, for launching it many times.

#include <cstddef>
#include <memory>

#include <kiln/cpp/arg.hpp>
#include <kiln/cpp/error.hpp>
#include <kiln/cpp/options.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

/// Made by Engine::plan, for one op and one set of shapes, in one context. The kernels are loaded,
/// and traits and geometry chosen. Any number of threads may launch it at once, but not while its
/// engine is being destroyed. It may be destroyed after that.
class Plan {
 public:
  /// Packs parameters and makes one driver call per kernel, nothing else: no allocation, no lock,
  /// no string. The arguments are those that the plan was made with, as many and in the same
  /// order; their names are not looked at. Only data pointers, strides and scalars may differ,
  /// which is checked in the checking mode (EngineOptions::check) and trusted otherwise. `stream`
  /// must belong to the plan's context; the driver refuses any other. Throws kNotLoaded after
  /// Engine::unload, and after its engine was destroyed.
  void launch(Args args, StreamHandle stream) const {
    detail::check(
        kiln_plan_launch(plan_.get(), detail::c_args(args), args.size(), stream, nullptr));
  }
  void launch(Args args, StreamHandle stream, const LaunchOptions& options) const {
    const kiln_launch_options c = detail::c_options(options);
    detail::check(kiln_plan_launch(plan_.get(), detail::c_args(args), args.size(), stream, &c));
  }

  /// Bytes that a launch needs as LaunchOptions::workspace; 0 once it can no longer be launched.
  std::size_t workspace_bytes() const {
    std::size_t bytes = 0;
    detail::check(kiln_plan_workspace_bytes(plan_.get(), &bytes));
    return bytes;
  }

  /// For calls of the C interface; stays this object's. Null once it was moved from.
  const kiln_plan* handle() const noexcept { return plan_.get(); }

 private:
  friend class Engine;
  explicit Plan(kiln_plan* plan) noexcept : plan_(plan) {}

  struct Destroy {
    void operator()(kiln_plan* plan) const noexcept { kiln_plan_destroy(plan); }
  };
  std::unique_ptr<kiln_plan, Destroy> plan_;
};

}  // namespace abi0
}  // namespace kiln
