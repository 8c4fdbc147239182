#pragma once

/// \file
/// Writes down which variants a running engine used.

#include <atomic>
#include <mutex>
#include <span>
#include <string>

#include <kiln/engine.hpp>

#include "base/logger.hpp"
#include "base/result.hpp"
#include "cache/file_system.hpp"
#include "runtime/manifest.hpp"

namespace kiln::runtime {

/// Adds what is used to a manifest file, which many processes may share: each merges what it has
/// into what is there, under its ManifestLock, and renames the whole into place. Whoever
/// reads the file, or kills a writer, finds it whole. Entries of others are never lost; a file that
/// is no manifest is left alone. Where recording fails, that is one warning and nobody's failure.
/// Thread-safe. Does disk I/O, so it is for the first use of a plan and not for each launch.
class Recorder {
 public:
  /// "%p" in the path stands for the process id. An empty path records nothing.
  Recorder(const std::string& path, const Logger& logger);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  /// Tries once more to write what could not be written while others held the lock.
  ~Recorder();

  /// False also once recording has stopped.
  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  /// Returns when the file holds them, but for a lock that is held too long: then a later call, or
  /// the destructor, writes them.
  void used(std::span<const Variant> variants) noexcept;

 private:
  void save();
  /// What the file holds; nothing when there is no file.
  Result<Manifest> stored();
  void stop(const std::string& why);

  Logger logger_;
  cache::PosixFileSystem disk_;
  std::string path_;
  std::atomic<bool> on_{false};
  std::mutex mutex_;  // Guards what follows.
  Manifest seen_;
  bool unsaved_ = false;
  bool waited_out_ = false;  // A lock was held too long once; nobody waits for it again.
};

/// The path with "%p" replaced by the process id.
std::string with_process_id(std::string path);

}  // namespace kiln::runtime
