#pragma once

#include <functional>
#include <utility>

#include "cache/wait_clock.hpp"

namespace kiln::cache::test {

/// Time that passes only while somebody sleeps, and then at once. For one thread.
class FakeClock final : public WaitClock {
 public:
  Duration now() override { return now_; }
  void sleep(Duration duration) override {
    advance(duration);
    ++sleeps_;
    if (on_sleep_) {
      on_sleep_();
    }
  }
  void advance(Duration duration) { now_ += duration; }
  int sleeps() const { return sleeps_; }
  /// Called after each sleep.
  void on_sleep(std::function<void()> action) { on_sleep_ = std::move(action); }

 private:
  Duration now_{0};
  int sleeps_ = 0;
  std::function<void()> on_sleep_;
};

}  // namespace kiln::cache::test
