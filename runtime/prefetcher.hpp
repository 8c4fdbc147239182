#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <unistd.h>

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
  /// Tasks that have not begun fail; those that have are waited for. In a process forked off after
  /// a thread was made, where there is none of them, it lets go of what they share.
  ~Prefetcher();

  /// The future gives the task's failure as a kiln::Error.
  std::shared_future<void> add(Task task, std::size_t threads);

 private:
  struct Job {
    Task task;
    std::promise<void> done;
  };

  /// What the threads share.
  struct Shared {
    std::mutex mutex;  // Guards what follows.
    std::condition_variable changed;
    std::deque<Job> waiting;
    std::vector<std::thread> threads;
    std::size_t idle = 0;
    bool stopping = false;
  };

  static void serve(Shared& shared);
  bool forked() const noexcept;

  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
  std::atomic<pid_t> process_ = 0;  // That of the threads; 0 before any was wanted.
};

}  // namespace kiln::runtime
