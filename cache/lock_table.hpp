#pragma once

/// \file
/// The locks that let one process compile a kernel while the others wait for it. They save work and
/// nothing else: whoever cannot have one compiles at once, and the store is correct without any.
///
/// [on-disk.begin]
///   lock := host " " pid " " random " " beats padding "\n", 128 bytes in all
///   Written by the holder when it takes the lock and every two seconds while it compiles, with a
///   greater number of beats, so that who waits can tell a busy holder from a stopped one. The
///   lock itself is flock()'s. A lock file is never removed, nor trusted for more than a log line.
/// [on-disk.end]

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/logger.hpp"
#include "cache/file_system.hpp"
#include "cache/key.hpp"
#include "cache/publisher.hpp"
#include "cache/wait_clock.hpp"

namespace kiln::cache {

struct LockTimes {
  using Duration = std::chrono::milliseconds;
  Duration wait_limit{600'000};  ///< After so long a waiter compiles for itself; 0: never waits.
  Duration stale_after{20'000};  ///< So long without a beat, and the holder counts as stopped.
  Duration warn_after{10'000};   ///< A longer wait is told of.
  Duration beat_every{2'000};    ///< Of a holder.
  Duration read_every{1'000};    ///< Of a waiter: how often it looks for a beat.
};

/// Held while a kernel is compiled, and given back at the end of its life, which must be before
/// that of the table and its file system.
class CompileLock {
 public:
  /// Holds nothing.
  CompileLock() noexcept;
  CompileLock(CompileLock&& other) noexcept;
  CompileLock& operator=(CompileLock&& other) noexcept;
  ~CompileLock();

  bool held() const noexcept { return holder_ != nullptr; }

 private:
  friend class LockTable;
  class Holder;
  explicit CompileLock(std::unique_ptr<Holder> holder) noexcept;
  std::unique_ptr<Holder> holder_;
};

/// The 256 locks of one writable root. Thread-safe; excludes threads as well as processes. Locks
/// are not recursive, and no one may hold two.
class LockTable {
 public:
  LockTable(FileSystem& file_system, Layout layout, Publisher& publisher, Logger logger,
            const LockTimes& times, std::shared_ptr<WaitClock> clock);

  /// Waits for the lock that this kernel shares with one in 256 others. The lock of a process that
  /// died is free at once. Holds nothing when the lock cannot be opened or taken, when its holder
  /// has stopped, and when the wait has reached its limit.
  CompileLock acquire(const Digest& source, const Digest& toolchain);

  /// Ends all waits, which then hold nothing, and allows no new ones until it is called with false.
  void stop_waiting(bool stop) noexcept { stop_waiting_.store(stop); }

 private:
  class Wait;
  std::string path_of(const Digest& source, const Digest& toolchain) const;
  void warn_unusable(const std::string& path, int error);
  bool is_stopped(const std::string& path, const std::string& line);
  void note_stopped(const std::string& path, const std::string& line);

  FileSystem& file_system_;
  const Layout layout_;
  Publisher& publisher_;
  const Logger logger_;
  const LockTimes times_;
  const std::shared_ptr<WaitClock> clock_;
  std::atomic<bool> stop_waiting_{false};

  // The line of each lock whose holder was found stopped, so that it delays this process only once.
  std::mutex stopped_mutex_;
  std::map<std::string, std::string> stopped_;  // By path; guarded by stopped_mutex_.
};

}  // namespace kiln::cache
