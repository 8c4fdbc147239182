#pragma once

#include <string>
#include <string_view>

#include "cache/file_system.hpp"

namespace kiln::cache {

/// A failed disk call: its errno, and what it was about, for a message.
struct IoFailure {
  int code = 0;
  std::string what;  ///< "cannot write /path: No space left on device (ENOSPC)".
};
using IoStatus = tl::expected<void, IoFailure>;

IoFailure io_failure(std::string_view doing, const std::string& path, int code);

/// A file that appears under its name whole or not at all. Unless commit() succeeded, the
/// destructor removes what was written.
class AtomicFile {
 public:
  /// Both paths must be in one file system. Touches nothing yet.
  AtomicFile(FileSystem& file_system, std::string temporary_path, std::string final_path)
      : file_system_(file_system),
        temporary_path_(std::move(temporary_path)),
        final_path_(std::move(final_path)) {}
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// Creates the temporary file with these bytes, and has them on the disk when it returns. An
  /// exact mode is not reduced by the umask.
  IoStatus write(std::string_view bytes, mode_t mode, bool exact = false);

  /// Renames the temporary file to its final name. Losing a race is success: another writer's file
  /// under that name stands for ours.
  IoStatus commit();

 private:
  FileSystem& file_system_;
  std::string temporary_path_;
  std::string final_path_;
  bool pending_ = false;  // The temporary file exists.
};

/// Makes the names in a folder last, as fsync does for a file's bytes.
IoStatus sync_directory(FileSystem& file_system, const std::string& path);

}  // namespace kiln::cache
