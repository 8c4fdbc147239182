#pragma once

/// \file
/// What the opaque handles are.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <kiln/engine.hpp>
#include <kiln/kiln.h>

// NOLINTBEGIN(readability-identifier-naming): C's names.

struct kiln_engine {
  explicit kiln_engine(kiln::EngineOptions options, kiln_log_callback log, void* log_user)
      : callback(log), user(log_user), engine(with_log(std::move(options))) {}

  kiln_log_callback callback;
  void* user;
  kiln::Engine engine;  // Last: it logs through the others.

 private:
  static void forward(kiln::LogLevel level, const char* message, void* self) {
    const auto& handle = *static_cast<const kiln_engine*>(self);
    handle.callback(static_cast<int32_t>(level) + KILN_LOG_DEBUG, message, handle.user);
  }
  kiln::EngineOptions with_log(kiln::EngineOptions options) {
    if (callback != nullptr) {
      options.log.callback = &kiln_engine::forward;
      options.log.user = this;
    }
    return options;
  }
};

struct kiln_plan {
  kiln::Plan plan;
  std::size_t given;  ///< Arguments of a launch.
  std::size_t all;    ///< Of the op.
  bool in_order;      ///< The given ones come in the op's order.
  std::string op;     ///< Its name: the plan may outlive its engine.
  /// Which of the op's arguments each of them is.
  std::array<std::uint8_t, kiln::Problem::kMaxArgs> order;
};

struct kiln_prefetch {
  kiln::Prefetch prefetch;
};

// NOLINTEND(readability-identifier-naming)
