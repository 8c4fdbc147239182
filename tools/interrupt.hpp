#pragma once

/// \file
/// Ending on a signal without losing what is done.

#include <atomic>
#include <csignal>
#include <stop_token>
#include <thread>

#include "runtime/worker/descriptor.hpp"

namespace kiln::tools {

/// While one lives, the first SIGINT or SIGTERM only asks for a stop, and the next one kills as
/// always. Make it before other threads: they must not be given the signals either. A signal that
/// was ignored when it was made, as nohup and shells without job control do, stays ignored.
class Interrupt {
 public:
  static constexpr int kSignalled = 128;

  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  /// The signal that came, or 0.
  int signal() const noexcept { return signal_.load(); }
  std::stop_token stop_token() const noexcept { return source_.get_token(); }
  /// What a shell says of a program that the signal ended: 130 for SIGINT, 143 for SIGTERM.
  int exit_code() const noexcept { return kSignalled + signal(); }

 private:
  void watch();

  sigset_t watched_;
  sigset_t mask_before_;
  runtime::Descriptor signals_;  // A signalfd of those watched.
  runtime::Descriptor end_;      // An eventfd, written when the watcher is no longer wanted.
  std::atomic<int> signal_{0};
  std::stop_source source_;
  std::jthread watcher_;
};

}  // namespace kiln::tools
