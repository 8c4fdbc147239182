#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "python/binding/engine.hpp"
#include "python/binding/error.hpp"

namespace kiln::python {
namespace {

namespace ffi = tvm::ffi;

std::atomic<bool> silent{false};
thread_local bool thread_is_silent = false;

// The engines of this process, and the threads of ours that are in Python or may go there.
class Lives {
 public:
  // Never freed: threads use it until the very end. A forked child has one of its own, since it has
  // none of its parent's threads, and locks as they happened to be.
  static Lives& of_process() {
    static std::atomic<Lives*> current{new Lives};
    Lives* found = current.load();
    while (found->process_ != getpid()) {
      auto made = std::make_unique<Lives>();
      if (current.compare_exchange_strong(found, made.get())) {
        found = made.release();
      }
    }
    return *found;
  }

  void add(std::weak_ptr<EngineLife> life) {
    const std::lock_guard lock(mutex_);
    std::erase_if(lives_, [](const auto& known) { return known.expired(); });
    lives_.push_back(std::move(life));
  }

  void keep(std::shared_ptr<EngineLife> life) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(life));
  }

  std::vector<std::shared_ptr<EngineLife>> open() {
    std::vector<std::shared_ptr<EngineLife>> found;
    const std::lock_guard lock(mutex_);
    for (const auto& known : lives_) {
      if (auto life = known.lock()) {
        found.push_back(std::move(life));
      }
    }
    return found;
  }

  // False once it is too late, and else until as many have left.
  bool enter() {
    const std::lock_guard lock(mutex_);
    busy_ += settled_ ? 0 : 1;
    return !settled_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    --busy_;
    left_.notify_all();
  }

  void settle() {
    std::unique_lock lock(mutex_);
    silent.store(true, std::memory_order_relaxed);
    left_.wait_for(lock, kPatience, [this] { return busy_ == 0; });
    settled_ = true;
  }

 private:
  static constexpr std::chrono::seconds kPatience{60};  // A receiver of lines may never return.

  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable left_;
  std::vector<std::weak_ptr<EngineLife>> lives_;
  std::vector<std::shared_ptr<EngineLife>> kept_;
  std::size_t busy_ = 0;
  bool settled_ = false;
};

}  // namespace

EngineLife::EngineLife(ffi::Optional<ffi::Function> log)
    : process_(getpid()), log_(std::move(log)) {}

void EngineLife::create(kiln_engine_options& options) {
  if (log_.has_value()) {
    options.log = &log_line;
    options.log_user = this;
  }
  check(kiln_engine_create(&options, &engine_));
  Lives::of_process().add(weak_from_this());
}

// A log line is no reason to fail, whatever the receiver thinks of it. It may come from a thread of
// the engine's own, and the receiver may close the engine.
void EngineLife::log_line(std::int32_t level, const char* message, void* user) {
  const std::shared_ptr<EngineLife> life = static_cast<EngineLife*>(user)->shared_from_this();
  Lives& lives = Lives::of_process();
  if (thread_is_silent || silent.load(std::memory_order_relaxed) || !lives.enter()) {
    return;
  }
  const bool entered = life->enter();  // Not while it is being ended, which waits for this.
  try {
    const std::string line = in_words_of_python(message);
    (*life->log_)(level, line.c_str());  // Plain, as tell_progress says of names.
  } catch (const std::exception&) {      // NOLINT(bugprone-empty-catch): see above
  }
  if (entered && life->left_last()) {
    life->destroy_elsewhere();
  }
  lives.leave();
}

bool EngineLife::shut() noexcept {
  return (state_.fetch_or(kClosed, std::memory_order_acq_rel) & kClosed) == 0;
}

void EngineLife::close() noexcept {
  if (shut()) {
    leave();
  }
}

void EngineLife::close_elsewhere() noexcept {
  if (shut() && left_last()) {
    destroy_elsewhere();
  }
}

void EngineLife::destroy() noexcept {
  if (getpid() != process_) {
    return;
  }
  kiln_engine_destroy(std::exchange(engine_, nullptr));
  if (silent.load(std::memory_order_relaxed)) {
    stay();
  } else {
    log_ = std::nullopt;  // It may hold the engine's owner.
  }
}

// Not at all where it is too late, since the process ends, or where no thread is to be had.
void EngineLife::destroy_elsewhere() noexcept {
  Lives& lives = Lives::of_process();
  if (!lives.enter()) {
    stay();
    return;
  }
  try {
    std::thread([life = shared_from_this(), &lives] {
      life->destroy();
      lives.leave();
    }).detach();
  } catch (const std::exception&) {
    stay();
    lives.leave();
  }
}

void EngineLife::stay() noexcept {
  Lives::of_process().keep(shared_from_this());
}

void EngineLife::end_all() noexcept {
  for (const std::shared_ptr<EngineLife>& life : Lives::of_process().open()) {
    life->close();
  }
  Lives::of_process().settle();
}

NoLines::NoLines() noexcept {
  thread_is_silent = true;
}

NoLines::~NoLines() {
  thread_is_silent = false;
}

}  // namespace kiln::python
