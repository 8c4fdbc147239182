#pragma once

/// \file
/// The seam between the store and the disk. Everything the store does to a disk goes through a
/// FileSystem, so that tests can count the calls and make each of them fail.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>
#include <tl/expected.hpp>

namespace kiln::cache {

/// A value, or the errno that says why there is none.
template <class T>
using Io = tl::expected<T, int>;

/// "Permission denied (EACCES)".
std::string errno_text(int code);

/// The folder that an absolute path's last name is in; "/" for "/" itself.
std::string parent_path(const std::string& path);

/// Tells a file from its successor under the same name.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileId&) const = default;
};

struct FileStatus {
  enum class Kind : std::uint8_t { kFile, kDirectory, kSymlink, kOther };
  Kind kind = Kind::kOther;
  std::uint64_t size = 0;
  std::uint64_t allocated = 0;  ///< Bytes of the disk that it takes up.
  mode_t mode = 0;              ///< Permission bits only.
  uid_t uid = 0;
  gid_t gid = 0;
  FileId id;
  std::chrono::nanoseconds modified{0};  ///< Since the epoch, by the file system's own clock.
};

/// Paths are absolute and, as canonical() returns them, free of symbolic links: one met anywhere on
/// the way fails with ELOOP, and is never followed. Thread-safe.
class FileSystem {
 public:
  using Handle = int;

  virtual ~FileSystem() = default;

  /// With the links of the part that exists resolved. The one call that follows links.
  virtual Io<std::string> canonical(const std::string& path) = 0;

  /// Never blocks, whatever kind of file the path names.
  virtual Io<Handle> open_for_read(const std::string& path) = 0;
  /// Fails with EEXIST when the name is taken.
  virtual Io<Handle> create(const std::string& path, mode_t mode) = 0;
  virtual Io<Handle> open_directory(const std::string& path) = 0;
  virtual Io<FileStatus> status(Handle handle) = 0;
  /// Bytes read; 0 at the end of the file.
  virtual Io<std::size_t> read(Handle handle, char* buffer, std::size_t size) = 0;
  virtual Io<std::size_t> write(Handle handle, std::string_view bytes) = 0;
  virtual Io<void> sync(Handle handle) = 0;
  /// Whatever the umask.
  virtual Io<void> set_mode(Handle handle, mode_t mode) = 0;
  /// The handle is gone whatever the result; an error may report a delayed write.
  virtual Io<void> close(Handle handle) = 0;

  /// Opens a file that is locked, for reading and writing, and makes it when it is not there. Each
  /// call gives a handle of its own, so that locks exclude threads as well as processes.
  virtual Io<Handle> open_lock(const std::string& path, mode_t mode) = 0;
  /// Takes the exclusive lock; EWOULDBLOCK when another handle has it. Never waits.
  virtual Io<void> try_lock(Handle handle) = 0;
  /// Gives the lock back, also where a forked child still holds a copy of the handle.
  virtual Io<void> unlock(Handle handle) = 0;
  /// Bytes read; 0 at the end of the file.
  virtual Io<std::size_t> read_at(Handle handle, char* buffer, std::size_t size,
                                  std::uint64_t offset) = 0;
  virtual Io<std::size_t> write_at(Handle handle, std::string_view bytes, std::uint64_t offset) = 0;

  virtual Io<FileStatus> status(const std::string& path) = 0;  ///< Of a link itself.
  /// Whether the effective user may create files in this directory.
  virtual Io<void> check_writable(const std::string& directory) = 0;
  virtual Io<std::vector<std::string>> list(
      const std::string& directory) = 0;  ///< Names, unsorted.
  virtual Io<void> make_directory(const std::string& path, mode_t mode) = 0;
  /// As if it were modified now, by the file system's clock. Needs the right to write it.
  virtual Io<void> touch(const std::string& path) = 0;
  virtual Io<void> rename(const std::string& from, const std::string& to) = 0;
  virtual Io<void> remove(const std::string& path) = 0;
  virtual Io<void> remove_directory(const std::string& path) = 0;

  /// Since the epoch, by this host's clock, which may differ from the file system's.
  virtual std::chrono::nanoseconds now() = 0;
};

/// The operating system's.
class PosixFileSystem final : public FileSystem {
 public:
  /// How links are kept out: by openat2 (Linux 5.6) where it works, else by opening every folder of
  /// a path in turn.
  enum class Lookup : std::uint8_t { kKernel, kWalk };
  explicit PosixFileSystem(Lookup lookup = Lookup::kKernel) : walk_(lookup == Lookup::kWalk) {}

  Io<std::string> canonical(const std::string& path) override;
  Io<Handle> open_for_read(const std::string& path) override;
  Io<Handle> create(const std::string& path, mode_t mode) override;
  Io<Handle> open_directory(const std::string& path) override;
  Io<FileStatus> status(Handle handle) override;
  Io<std::size_t> read(Handle handle, char* buffer, std::size_t size) override;
  Io<std::size_t> write(Handle handle, std::string_view bytes) override;
  Io<void> sync(Handle handle) override;
  Io<void> set_mode(Handle handle, mode_t mode) override;
  Io<void> close(Handle handle) override;
  Io<Handle> open_lock(const std::string& path, mode_t mode) override;
  Io<void> try_lock(Handle handle) override;
  Io<void> unlock(Handle handle) override;
  Io<std::size_t> read_at(Handle handle, char* buffer, std::size_t size,
                          std::uint64_t offset) override;
  Io<std::size_t> write_at(Handle handle, std::string_view bytes, std::uint64_t offset) override;
  Io<FileStatus> status(const std::string& path) override;
  Io<void> check_writable(const std::string& directory) override;
  Io<std::vector<std::string>> list(const std::string& directory) override;
  Io<void> make_directory(const std::string& path, mode_t mode) override;
  Io<void> touch(const std::string& path) override;
  Io<void> rename(const std::string& from, const std::string& to) override;
  Io<void> remove(const std::string& path) override;
  Io<void> remove_directory(const std::string& path) override;
  std::chrono::nanoseconds now() override;

 private:
  // Where a name lives: its folder, opened without following links, and the name in it.
  struct Place;
  Io<Place> place(const std::string& path);
  Io<Handle> open(const std::string& path, int flags, mode_t mode);
  Io<Handle> open_by_walk(const std::string& path, int flags, mode_t mode);

  std::atomic<bool> walk_;  // Set for good once the kernel turned openat2 down.
};

/// An open handle of a FileSystem, closed at the end of its life.
class OpenFile {
 public:
  OpenFile(FileSystem& file_system, FileSystem::Handle handle) noexcept
      : file_system_(&file_system), handle_(handle) {}
  OpenFile(OpenFile&& other) noexcept
      : file_system_(other.file_system_), handle_(std::exchange(other.handle_, kClosed)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(file_system_, other.file_system_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { static_cast<void>(close()); }

  FileSystem::Handle get() const noexcept { return handle_; }
  /// Closes now, for a writer who must know whether that worked. Later calls do nothing.
  Io<void> close();

 private:
  static constexpr FileSystem::Handle kClosed = -1;
  FileSystem* file_system_;
  FileSystem::Handle handle_;
};

/// The whole of a regular file of at most `limit` bytes: EFBIG for a larger one, EINVAL for what is
/// not a regular file. One open.
struct FileContent {
  std::string bytes;
  FileId id;
  std::chrono::nanoseconds modified{0};  ///< As in FileStatus.
};
Io<FileContent> read_file(FileSystem& file_system, const std::string& path, std::uint64_t limit);

}  // namespace kiln::cache
