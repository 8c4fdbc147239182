#pragma once

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.hpp"
#include "runtime/worker/channel.hpp"
#include "runtime/worker/descriptor.hpp"

namespace kiln::runtime {

/// The worker's end of the socket, in the worker.
inline constexpr int kWorkerSocket = 3;
/// The worker's only argument: without it, it takes itself to be started by hand.
inline constexpr const char* kWorkerArgument = "serve";

/// A copy of the environment, as a child is given it.
std::vector<std::string> copy_of_environment();

/// One spawned worker process and the socket to it. Its end leaves nothing behind: the process is
/// killed and reaped. In a process forked off after the spawn it only closes its descriptors.
/// One thread at a time, but for kill() and pid().
class Child {
 public:
  /// Started with nothing of this process but its environment, working directory and limits:
  /// standard streams on /dev/null, default signal handling. A compile worker is killed when the
  /// calling thread ends.
  static Result<std::unique_ptr<Child>> spawn(const std::string& path,
                                              const std::vector<std::string>& environment);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  pid_t pid() const noexcept { return pid_; }
  Channel& channel() noexcept { return channel_; }
  const Channel& channel() const noexcept { return channel_; }

  /// SIGKILL, which also ends a stopped process. Does not wait.
  void kill() const noexcept;

  /// Waits up to `grace` for the process to end by itself, kills it if it has not, reaps it, and
  /// says how it ended: "was killed by SIGSEGV (11)", "exited with code 3". A process that a
  /// system call keeps from dying is left alone after some seconds.
  std::string finish(std::chrono::milliseconds grace);
  /// Whether finish() saw it leave with exit code 0.
  bool left_cleanly() const noexcept { return left_cleanly_; }

 private:
  Child(pid_t pid, Descriptor socket);
  bool is_mine() const noexcept;
  bool wait_for_end(std::chrono::milliseconds limit);
  bool reap();
  int wait_without_blocking(siginfo_t& info) const noexcept;

  const pid_t owner_;
  const pid_t pid_;
  Descriptor pidfd_;
  Channel channel_;
  bool left_cleanly_ = false;
  std::string end_;  ///< How it ended; empty until then.
};

}  // namespace kiln::runtime
