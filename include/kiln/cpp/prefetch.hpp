#pragma once

/// \file
/// Something that is being compiled in the background.

#include <chrono>
#include <cstdint>
#include <memory>

#include <kiln/cpp/error.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

/// Made by Engine::prefetch. It may outlive its engine, whose end makes it fail if it has not
/// begun. Destroying it does not wait; what was started goes on.
class Prefetch {
 public:
  /// Whether it has finished, well or not. Never waits.
  bool ready() const {
    std::int32_t ready = 0;
    detail::check(kiln_prefetch_poll(prefetch_.get(), &ready));
    return ready != 0;
  }
  /// Waits until it has finished, well or not.
  void wait() const { wait_at_most(-1); }
  /// The same, but at most so long; whether it has finished.
  bool wait_for(std::chrono::nanoseconds limit) const {
    return wait_at_most(limit.count() > 0 ? limit.count() : 0);
  }
  /// Waits; throws the Error that kept it from being there.
  void get() const { detail::check(kiln_prefetch_wait(prefetch_.get(), -1, nullptr)); }

 private:
  friend class Engine;
  explicit Prefetch(kiln_prefetch* prefetch) noexcept : prefetch_(prefetch) {}

  bool wait_at_most(std::int64_t nanoseconds) const {
    std::int32_t ready = 0;
    const kiln_status status = kiln_prefetch_wait(prefetch_.get(), nanoseconds, &ready);
    if (ready == 0) {  // Else the status is what became of it, which is for get().
      detail::check(status);
    }
    return ready != 0;
  }

  struct Destroy {
    void operator()(kiln_prefetch* prefetch) const noexcept { kiln_prefetch_destroy(prefetch); }
  };
  std::unique_ptr<kiln_prefetch, Destroy> prefetch_;
};

}  // namespace abi0
}  // namespace kiln
