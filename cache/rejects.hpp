#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/logger.hpp"
#include "cache/file_system.hpp"
#include "cache/layout.hpp"
#include "cache/modes.hpp"

namespace kiln::cache {

/// Entries that failed a check, or that a caller could not use. Each is moved to the quarantine or,
/// where that cannot be, remembered and passed over. Thread-safe.
class Rejects {
 public:
  /// The modes are those of the folder that they are moved to.
  Rejects(FileSystem& file_system, const Logger& logger, const Modes& modes)
      : file_system_(file_system), logger_(logger), modes_(modes) {}

  bool contains(const std::string& place);
  /// A good entry has taken its place.
  void forget(const std::string& place);

  /// `home` is the writable root if the entry lies there, else null. An entry that another process
  /// has replaced since it was read as `file` is left alone; without a file, what lies there is not
  /// an entry and is left where it is. Logged once.
  void add(const std::string& place, const Layout* home, const std::optional<FileId>& file,
           std::string_view reason);

  /// How many were added.
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  enum class Fate : std::uint8_t { kGone, kMoved, kStays };
  Fate move_away(const std::string& path, const Layout& home, const FileId& file,
                 std::string& moved_to);

  FileSystem& file_system_;
  const Logger& logger_;
  const Modes modes_;
  std::atomic<std::uint64_t> count_ = 0;
  std::mutex mutex_;
  std::set<std::string> places_;  // Guarded by mutex_: rejected, and still in place.
};

}  // namespace kiln::cache
