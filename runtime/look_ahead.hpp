#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace kiln::runtime {

/// Makes values for somebody who takes them one after the other, on threads that stay a few ahead.
/// A value that no thread has begun when its turn comes is made by who takes it, so that it is
/// never waited for a thread to start, nor is there need of any. Where `make` throws, the value is
/// a Value().
template <class Value>
class LookAhead {
 public:
  using Make = std::function<Value(std::size_t)>;

  /// Values that are made or being made and not yet taken: they take memory.
  static constexpr std::size_t kMostAhead = 12;
  /// Threads that wait for room are woken when no more than these are left: to wake one for each
  /// value would take who takes them longer than all else here.
  static constexpr std::size_t kFewAhead = 4;

  /// Starts up to `hands` threads; fewer where the process may have no more.
  LookAhead(std::size_t count, std::size_t hands, Make make)
      : count_(count), make_(std::move(make)), slots_(kMostAhead) {
    try {
      while (threads_.size() < hands) {
        threads_.emplace_back([this] { work(); });
      }
    } catch (const std::exception&) {
      // A process limit, or no memory: those that started do, and who takes the values.
    }
  }
  LookAhead(const LookAhead&) = delete;
  LookAhead& operator=(const LookAhead&) = delete;
  /// Waits for the values under way; begins no other.
  ~LookAhead() {
    {
      const std::lock_guard lock(mutex_);
      begun_ = count_;
    }
    room_.notify_all();
  }

  /// The next value, of which there are as many as were asked for. By one thread at a time.
  Value take() {
    std::unique_lock lock(mutex_);
    std::optional<Value>& slot = slots_[taken_ % kMostAhead];
    if (begun_ == taken_) {
      const std::size_t index = begun_++;
      lock.unlock();
      Value value = make(index);
      lock.lock();
      slot.emplace(std::move(value));
    }
    made_.wait(lock, [&] { return slot.has_value(); });
    Value value = std::move(*slot);
    slot.reset();
    ++taken_;
    const bool low = begun_ - taken_ == kFewAhead;
    lock.unlock();
    if (low) {
      room_.notify_all();
    }
    return value;
  }

 private:
  // There may be nobody to throw to, and who takes the value can do without.
  Value make(std::size_t index) noexcept {
    try {
      return make_(index);
    } catch (...) {
      return Value();
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      room_.wait(lock, [this] { return begun_ >= count_ || begun_ < taken_ + kMostAhead; });
      if (begun_ >= count_) {
        return;
      }
      const std::size_t index = begun_++;
      lock.unlock();
      Value value = make(index);
      lock.lock();
      slots_[index % kMostAhead].emplace(std::move(value));
      if (index == taken_) {
        made_.notify_one();
      }
    }
  }

  const std::size_t count_;
  const Make make_;
  std::mutex mutex_;                         // Guards what follows, but for the threads.
  std::condition_variable room_;             // Few values are ahead, or no more are wanted.
  std::condition_variable made_;             // The value whose turn it is was made.
  std::vector<std::optional<Value>> slots_;  // Of the values from taken_ on.
  std::size_t begun_ = 0;
  std::size_t taken_ = 0;
  std::vector<std::jthread> threads_;  // Last, so that they end before the rest does.
};

}  // namespace kiln::runtime
