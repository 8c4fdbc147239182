#include <exception>
#include <thread>
#include <utility>

#include <unistd.h>

#include "python/binding/engine.hpp"

namespace kiln::python {
namespace {

namespace ffi = tvm::ffi;

std::atomic<bool> silent{false};
thread_local bool thread_is_silent = false;

}  // namespace

EngineLife::EngineLife(ffi::Optional<ffi::Function> log)
    : process_(getpid()), log_(std::move(log)) {}

void EngineLife::create(kiln_engine_options& options) {
  if (log_.has_value()) {
    options.log = &log_line;
    options.log_user = this;
  }
  check(kiln_engine_create(&options, &engine_));
}

// A log line is no reason to fail, whatever the receiver thinks of it. It may come from a thread of
// the engine's own, and the receiver may close the engine.
void EngineLife::log_line(std::int32_t level, const char* message, void* user) {
  const std::shared_ptr<EngineLife> life = static_cast<EngineLife*>(user)->shared_from_this();
  const bool entered = life->enter();  // Not while it is being ended, which waits for this.
  if (!thread_is_silent && !silent.load(std::memory_order_relaxed)) {
    try {
      (*life->log_)(level, message);   // Plain, as tell_progress says of names.
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see above
    }
  }
  if (entered && life->left_last()) {
    life->destroy_elsewhere();
  }
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
  log_ = std::nullopt;  // It may hold the engine's owner.
}

void EngineLife::destroy_elsewhere() noexcept {
  try {
    std::thread([life = shared_from_this()] { life->destroy(); }).detach();
  } catch (const std::exception&) {
    return;  // No thread to be had: it stays, which harms nobody.
  }
}

void EngineLife::silence() noexcept {
  silent.store(true, std::memory_order_relaxed);
}

NoLines::NoLines() noexcept {
  thread_is_silent = true;
}

NoLines::~NoLines() {
  thread_is_silent = false;
}

}  // namespace kiln::python
