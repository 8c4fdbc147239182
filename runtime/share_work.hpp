#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

namespace kiln::runtime {

/// Calls `work(i)` for each i below `count`, in this order of beginning, on up to `hands` threads
/// of which this is one; fewer where the process may have no more. Returns when all are done. Once
/// one throws or `stop` is asked for, no further one begins; what was thrown first is thrown again.
template <class Work>
void share_work(std::size_t count, std::size_t hands, const std::stop_token& stop, Work&& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;  // Guarded by mutex.
  const auto take_turns = [&]() noexcept {
    try {
      for (std::size_t i = next++; i < count && !stop.stop_requested(); i = next++) {
        work(i);
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      error = error ? error : std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (std::size_t i = 1; i < std::min(hands, count); ++i) {
        threads.emplace_back(take_turns);
      }
    } catch (const std::system_error&) {
      // A process limit: those that started, and this thread, do all of it.
    }
    take_turns();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace kiln::runtime
