#include "cache/atomic_file.hpp"

#include <cerrno>

#include <fmt/format.h>

namespace kiln::cache {
IoFailure io_failure(std::string_view doing, const std::string& path, int code) {
  return {code, fmt::format("cannot {} {}: {}", doing, path, errno_text(code))};
}

AtomicFile::~AtomicFile() {
  if (pending_) {
    static_cast<void>(file_system_.remove(temporary_path_));
  }
}

IoStatus AtomicFile::write(std::string_view bytes, mode_t mode, bool exact) {
  const auto failed = [&](std::string_view doing, int code) {
    return tl::unexpected(io_failure(doing, temporary_path_, code));
  };
  const auto handle = file_system_.create(temporary_path_, mode);
  if (!handle) {
    return failed("create", handle.error());
  }
  pending_ = true;
  OpenFile file(file_system_, *handle);
  if (exact) {
    if (const auto shared = file_system_.set_mode(file.get(), mode); !shared) {
      return failed("share", shared.error());
    }
  }
  while (!bytes.empty()) {
    const auto count = file_system_.write(file.get(), bytes);
    if (!count || *count == 0) {
      return failed("write", count ? ENOSPC : count.error());
    }
    bytes.remove_prefix(*count);
  }
  if (const auto synced = file_system_.sync(file.get()); !synced) {
    return failed("sync", synced.error());
  }
  // Network file systems report some failed writes only here.
  if (const auto closed = file.close(); !closed) {
    return failed("close", closed.error());
  }
  return {};
}

IoStatus AtomicFile::commit() {
  const auto renamed = file_system_.rename(temporary_path_, final_path_);
  if (renamed) {
    pending_ = false;
    return {};
  }
  // ENOENT: a network file system did the rename and lost the answer, so that the repeated request
  // found no temporary file. Then our bytes lie under the final name already.
  const int error = renamed.error();
  if ((error == ENOENT || error == EEXIST) && file_system_.status(final_path_)) {
    return {};
  }
  return tl::unexpected(io_failure("publish", final_path_, error));
}

IoStatus sync_directory(FileSystem& file_system, const std::string& path) {
  const auto handle = file_system.open_directory(path);
  if (!handle) {
    return tl::unexpected(io_failure("open", path, handle.error()));
  }
  const OpenFile folder(file_system, *handle);
  const auto synced = file_system.sync(folder.get());
  // EINVAL: this file system does not sync folders.
  if (!synced && synced.error() != EINVAL) {
    return tl::unexpected(io_failure("sync", path, synced.error()));
  }
  return {};
}

}  // namespace kiln::cache
