#include "cache/atomic_file.hpp"

#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdint>

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

namespace kiln::cache {
namespace {

std::string host_name() {
  std::array<char, 65> buffer = {};
  if (gethostname(buffer.data(), buffer.size() - 1) != 0) {
    return "host";
  }
  std::string name = buffer.data();
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-';
    c = plain ? c : '_';
  }
  return name;
}

std::uint64_t random_number() {
  std::uint64_t value = 0;
  if (getrandom(&value, sizeof value, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof value)) {
    // Too early in the boot, or a sandbox: host and pid still tell writers apart.
    value = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return value;
}

}  // namespace

IoFailure io_failure(std::string_view doing, const std::string& path, int code) {
  return {code, fmt::format("cannot {} {}: {}", doing, path, errno_text(code))};
}

std::string temporary_name() {
  return fmt::format("{}.{}.{:016x}.tmp", host_name(), getpid(), random_number());
}

AtomicFile::~AtomicFile() {
  if (pending_) {
    static_cast<void>(file_system_.remove(temporary_path_));
  }
}

IoStatus AtomicFile::write(std::string_view bytes, mode_t mode) {
  const auto failed = [&](std::string_view doing, int code) {
    return tl::unexpected(io_failure(doing, temporary_path_, code));
  };
  const auto handle = file_system_.create(temporary_path_, mode);
  if (!handle) {
    return failed("create", handle.error());
  }
  pending_ = true;
  OpenFile file(file_system_, *handle);
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
