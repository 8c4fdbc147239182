#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.hpp"

namespace kiln::runtime {

/// Runs tasks in the background, several at a time, on threads that it makes as they are needed.
/// All members may be called from any thread.
class Prefetcher {
 public:
  using Task = std::function<Status()>;

  Prefetcher() = default;
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  /// Tasks that have not begun fail; those that have are waited for.
  ~Prefetcher();

  /// The future gives the task's failure as a kiln::Error.
  std::shared_future<void> add(Task task, std::size_t threads);

 private:
  struct Job {
    Task task;
    std::promise<void> done;
  };

  void serve();

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace kiln::runtime
