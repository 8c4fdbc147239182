#include "runtime/prefetcher.hpp"

#include <exception>
#include <system_error>
#include <utility>

namespace kiln::runtime {
namespace {

void run(const Prefetcher::Task& task, std::promise<void>& done) {
  try {
    value_or_throw(task());
    done.set_value();
  } catch (...) {
    done.set_exception(std::current_exception());
  }
}

}  // namespace

Prefetcher::~Prefetcher() {
  if (forked()) {
    // Its mutex may be locked for ever, and its threads cannot be joined.
    static_cast<void>(shared_.release());
    return;
  }
  std::deque<Job> left;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    left.swap(shared_->waiting);
  }
  shared_->changed.notify_all();
  for (Job& job : left) {
    run(
        [] {
          return Status(
              fail(ErrorCode::kCancelled, "its engine was destroyed before this prefetch began"));
        },
        job.done);
  }
  for (std::thread& thread : shared_->threads) {
    thread.join();
  }
}

bool Prefetcher::forked() const noexcept {
  const pid_t process = process_;
  return process != 0 && process != getpid();
}

std::shared_future<void> Prefetcher::add(Task task, std::size_t threads) {
  Job job{std::move(task), {}};
  std::shared_future<void> future = job.done.get_future().share();
  if (forked()) {
    run(job.task, job.done);
    return future;
  }
  process_ = getpid();  // Before the lock, which a child must find either free or not its own.
  std::unique_lock lock(shared_->mutex);
  std::deque<Job>& waiting = shared_->waiting;
  waiting.push_back(std::move(job));
  if (shared_->idle < waiting.size() && shared_->threads.size() < threads) {
    try {
      shared_->threads.emplace_back([shared = shared_.get()] { serve(*shared); });
    } catch (const std::system_error&) {
      // A process limit: the threads there are do it, or else this one.
      if (shared_->threads.empty()) {
        Job mine = std::move(waiting.back());
        waiting.pop_back();
        lock.unlock();
        run(mine.task, mine.done);
        return future;
      }
    }
  }
  lock.unlock();
  shared_->changed.notify_one();
  return future;
}

void Prefetcher::serve(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  for (;;) {
    ++shared.idle;
    shared.changed.wait(lock, [&] { return shared.stopping || !shared.waiting.empty(); });
    --shared.idle;
    if (shared.waiting.empty()) {
      return;
    }
    Job job = std::move(shared.waiting.front());
    shared.waiting.pop_front();
    lock.unlock();
    run(job.task, job.done);
    lock.lock();
  }
}

}  // namespace kiln::runtime
