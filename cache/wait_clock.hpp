#pragma once

/// \file
/// The seam between waiting and time, so that tests of long waits take none.

#include <chrono>

namespace kiln::cache {

/// Thread-safe.
class WaitClock {
 public:
  using Duration = std::chrono::nanoseconds;

  virtual ~WaitClock() = default;
  /// Since some fixed moment; never goes back.
  virtual Duration now() = 0;
  virtual void sleep(Duration duration) = 0;
};

/// This machine's monotonic clock.
class SteadyWaitClock final : public WaitClock {
 public:
  Duration now() override;
  void sleep(Duration duration) override;
};

}  // namespace kiln::cache
