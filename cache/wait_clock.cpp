#include "cache/wait_clock.hpp"

#include <thread>

namespace kiln::cache {

WaitClock::Duration SteadyWaitClock::now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

void SteadyWaitClock::sleep(Duration duration) {
  std::this_thread::sleep_for(duration);
}

}  // namespace kiln::cache
