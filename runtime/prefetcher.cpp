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
  std::deque<Job> left;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    left.swap(waiting_);
  }
  changed_.notify_all();
  for (Job& job : left) {
    run(
        [] {
          return Status(
              fail(ErrorCode::kCancelled, "its engine was destroyed before this prefetch began"));
        },
        job.done);
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

std::shared_future<void> Prefetcher::add(Task task, std::size_t threads) {
  Job job{std::move(task), {}};
  std::shared_future<void> future = job.done.get_future().share();
  std::unique_lock lock(mutex_);
  waiting_.push_back(std::move(job));
  if (idle_ < waiting_.size() && threads_.size() < threads) {
    try {
      threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      // A process limit: the threads there are do it, or else this one.
      if (threads_.empty()) {
        Job mine = std::move(waiting_.back());
        waiting_.pop_back();
        lock.unlock();
        run(mine.task, mine.done);
        return future;
      }
    }
  }
  lock.unlock();
  changed_.notify_one();
  return future;
}

void Prefetcher::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) {
      return;
    }
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    run(job.task, job.done);
    lock.lock();
  }
}

}  // namespace kiln::runtime
