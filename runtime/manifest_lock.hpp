#pragma once

/// \file
/// Who may write a manifest that others write too.

#include <chrono>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "cache/file_system.hpp"

namespace kiln::runtime {

/// The right to read a manifest file and replace it: an flock of "<path>.lock", which is made and
/// never removed.
class ManifestLock {
 public:
  /// Nothing when others hold it for longer than `patience`; kIo when it cannot be made. `path` is
  /// canonical, and `disk` outlives the lock.
  static Result<std::optional<ManifestLock>> take(cache::FileSystem& disk, const std::string& path,
                                                  std::chrono::milliseconds patience);

  ManifestLock(ManifestLock&& other) noexcept;
  ManifestLock(const ManifestLock&) = delete;
  ManifestLock& operator=(const ManifestLock&) = delete;
  ManifestLock& operator=(ManifestLock&&) = delete;
  ~ManifestLock();

 private:
  ManifestLock(cache::FileSystem& disk, cache::OpenFile file);

  cache::FileSystem* disk_;
  cache::OpenFile file_;
};

}  // namespace kiln::runtime
