#pragma once

/// \file
/// Keeping the writable root within its limits: entries go in the order in which they were last
/// used.
///
/// The stamp of last use is the time of the entry file's modification, which nothing else has a use
/// for. It is set by the entry's being written, and by a hit when it is more than a day old, so
/// that a warm start of a thousand kernels writes nothing. An age limit is therefore exact to a
/// day.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/logger.hpp"
#include "cache/file_system.hpp"
#include "cache/layout.hpp"
#include "cache/limits.hpp"

namespace kiln::cache {

/// What can be removed to make room.
struct Trimmable {
  std::string path;
  std::uint64_t bytes = 0;  ///< Of disk.
  std::chrono::nanoseconds used{0};
  bool quarantined = false;  ///< Serves nobody, and so goes first.
};

/// Which of them must go; pure. Those that an age limit forbids; then, when they take more than
/// `max_bytes` of disk, the least recently used until nine tenths of that are left. Nothing that
/// was used within `grace` before `now`, nor what lies at `keep`. A stamp more than a day ahead of
/// `now` is from a wrong clock, and counts as the oldest.
std::vector<Trimmable> choose_trimmed(std::vector<Trimmable> all, const Limits& limits,
                                      std::chrono::nanoseconds now, const std::string& keep,
                                      std::chrono::nanoseconds grace = std::chrono::seconds(0));

struct TrimReport {
  std::uint64_t removed = 0;  ///< Files.
  std::uint64_t removed_bytes = 0;
  std::uint64_t kept = 0;
  std::uint64_t kept_bytes = 0;
  std::string problem;  ///< The first thing that could not be done. Empty when all went well.
};

/// Thread-safe, and safe among any number of processes: to find a file gone is as good as removing
/// it. Files that are not the cache's are left alone, with one warning.
class Trimmer {
 public:
  Trimmer(FileSystem& file_system, Layout layout, const Limits& limits, const Logger& logger)
      : file_system_(file_system), layout_(std::move(layout)), limits_(limits), logger_(logger) {}

  const Limits& limits() const noexcept { return limits_; }

  /// A hit in this root. Writes nothing without a limit, or when the stamp is at most a day old.
  void used(const std::string& path, std::chrono::nanoseconds stamp);

  /// An entry was published here. Trims at the first call, and then whenever the published bytes
  /// come to a sixteenth of the size limit, early enough that no publish ends above the limit but
  /// by what was published within two seconds before it.
  void published(const std::string& path, std::uint64_t bytes);

  /// Trims now, to these limits.
  TrimReport trim(const Limits& limits);

  /// Files that were removed.
  std::uint64_t trimmed() const noexcept { return trimmed_.load(std::memory_order_relaxed); }

 private:
  TrimReport trim(const Limits& limits, std::chrono::nanoseconds now, const std::string& keep,
                  std::chrono::nanoseconds grace);
  std::vector<Trimmable> find_all(TrimReport& report);
  void remove(const std::vector<Trimmable>& chosen, TrimReport& report);

  FileSystem& file_system_;
  const Layout layout_;
  const Limits limits_;
  const Logger& logger_;
  std::atomic<bool> begun_ = false;
  std::atomic<std::uint64_t> untrimmed_bytes_ = 0;  // Published since the last trim.
  std::atomic<std::uint64_t> trimmed_ = 0;
  std::mutex trimming_;
};

}  // namespace kiln::cache
