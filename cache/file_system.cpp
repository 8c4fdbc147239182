#include "cache/file_system.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kiln::cache {
namespace {

tl::unexpected<int> last_error() {
  return tl::unexpected(errno);
}

Io<void> check(int result) {
  if (result != 0) {
    return last_error();
  }
  return {};
}

FileStatus to_status(const struct stat& raw) {
  FileStatus status;
  if (S_ISREG(raw.st_mode)) {
    status.kind = FileStatus::Kind::kFile;
  } else if (S_ISDIR(raw.st_mode)) {
    status.kind = FileStatus::Kind::kDirectory;
  } else if (S_ISLNK(raw.st_mode)) {
    status.kind = FileStatus::Kind::kSymlink;
  }
  constexpr std::uint64_t kBlock = 512;  // What st_blocks counts, whatever the disk's blocks.
  status.size = static_cast<std::uint64_t>(raw.st_size);
  status.allocated = static_cast<std::uint64_t>(raw.st_blocks) * kBlock;
  status.mode = raw.st_mode & 07777;
  status.uid = raw.st_uid;
  status.gid = raw.st_gid;
  status.id = {raw.st_dev, raw.st_ino};
  status.modified =
      std::chrono::seconds(raw.st_mtim.tv_sec) + std::chrono::nanoseconds(raw.st_mtim.tv_nsec);
  return status;
}

// Repeats a call that a signal interrupted, and gives what it counted.
template <class Call>
Io<std::size_t> counted(const Call& call) {
  ssize_t count = 0;
  do {
    count = call();
  } while (count < 0 && errno == EINTR);
  return count < 0 ? Io<std::size_t>(last_error()) : static_cast<std::size_t>(count);
}

int retrying_openat(int directory, const char* name, int flags, mode_t mode) {
  int handle = -1;
  do {
    handle = openat(directory, name, flags, mode);
  } while (handle < 0 && errno == EINTR);
  return handle;
}

// O_NOFOLLOW with O_DIRECTORY reports a link as ENOTDIR; say ELOOP as openat2 does.
int open_component(int directory, const std::string& name, int flags, mode_t mode) {
  const int handle = retrying_openat(directory, name.c_str(), flags | O_NOFOLLOW, mode);
  if (handle < 0 && errno == ENOTDIR) {
    struct stat raw;
    const bool link =
        fstatat(directory, name.c_str(), &raw, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(raw.st_mode);
    errno = link ? ELOOP : ENOTDIR;
  }
  return handle;
}

int open_by_kernel(const std::string& path, int flags, mode_t mode) {
  open_how how = {};
  how.flags = static_cast<unsigned>(flags);
  how.mode = (flags & O_CREAT) != 0 ? mode : mode_t{0};
  how.resolve = RESOLVE_NO_SYMLINKS;
  long handle = -1;
  do {
    handle = syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how);
  } while (handle < 0 && errno == EINTR);
  return static_cast<int>(handle);
}

}  // namespace

std::string errno_text(int code) {
  const char* name = strerrorname_np(code);
  return fmt::format("{} ({})", std::generic_category().message(code),
                     name != nullptr ? name : std::to_string(code));
}

std::string parent_path(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

Io<void> OpenFile::close() {
  const auto handle = std::exchange(handle_, kClosed);
  return handle == kClosed ? Io<void>() : file_system_->close(handle);
}

struct PosixFileSystem::Place {
  OpenFile folder;
  std::string name;
};

Io<FileSystem::Handle> PosixFileSystem::open_by_walk(const std::string& path, int flags,
                                                     mode_t mode) {
  const int top = retrying_openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
  if (top < 0) {
    return last_error();
  }
  OpenFile folder(*this, top);
  std::size_t begin = 1;
  for (auto end = path.find('/', begin); end != std::string::npos; end = path.find('/', begin)) {
    const int next = open_component(folder.get(), path.substr(begin, end - begin),
                                    O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (next < 0) {
      return last_error();
    }
    folder = OpenFile(*this, next);
    begin = end + 1;
  }
  const std::string name = path.substr(begin);
  const int handle = open_component(folder.get(), name.empty() ? "." : name, flags, mode);
  return handle < 0 ? Io<Handle>(last_error()) : handle;
}

Io<FileSystem::Handle> PosixFileSystem::open(const std::string& path, int flags, mode_t mode) {
  if (!path.starts_with('/')) {
    return tl::unexpected(EINVAL);
  }
  if (!walk_.load(std::memory_order_relaxed)) {
    const int handle = open_by_kernel(path, flags | O_CLOEXEC, mode);
    if (handle >= 0) {
      return handle;
    }
    // EPERM is also what old container sandboxes answer to a call they do not know.
    if (errno != ENOSYS && errno != EPERM) {
      return last_error();
    }
    const bool unknown_call = errno == ENOSYS;
    auto walked = open_by_walk(path, flags | O_CLOEXEC, mode);
    if (unknown_call || walked) {
      walk_.store(true, std::memory_order_relaxed);
    }
    return walked;
  }
  return open_by_walk(path, flags | O_CLOEXEC, mode);
}

Io<PosixFileSystem::Place> PosixFileSystem::place(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  const auto handle = open(parent_path(path), O_PATH | O_DIRECTORY, 0);
  if (!handle) {
    return tl::unexpected(handle.error());
  }
  return Place{OpenFile(*this, *handle), name.empty() ? "." : std::move(name)};
}

Io<std::string> PosixFileSystem::canonical(const std::string& path) {
  if (!path.starts_with('/')) {
    return tl::unexpected(EINVAL);
  }
  std::error_code error;
  auto resolved = std::filesystem::weakly_canonical(path, error).string();
  if (error) {
    return tl::unexpected(error.value());
  }
  while (resolved.size() > 1 && resolved.back() == '/') {
    resolved.pop_back();
  }
  return resolved;
}

Io<FileSystem::Handle> PosixFileSystem::open_for_read(const std::string& path) {
  // O_NONBLOCK: opening a planted pipe must not wait for its writer.
  return open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
}

Io<FileSystem::Handle> PosixFileSystem::create(const std::string& path, mode_t mode) {
  return open(path, O_WRONLY | O_CREAT | O_EXCL, mode);
}

Io<FileSystem::Handle> PosixFileSystem::open_directory(const std::string& path) {
  return open(path, O_RDONLY | O_DIRECTORY, 0);
}

Io<FileStatus> PosixFileSystem::status(Handle handle) {
  struct stat raw;
  if (fstat(handle, &raw) != 0) {
    return last_error();
  }
  return to_status(raw);
}

Io<std::size_t> PosixFileSystem::read(Handle handle, char* buffer, std::size_t size) {
  return counted([&] { return ::read(handle, buffer, size); });
}

Io<std::size_t> PosixFileSystem::write(Handle handle, std::string_view bytes) {
  return counted([&] { return ::write(handle, bytes.data(), bytes.size()); });
}

Io<void> PosixFileSystem::sync(Handle handle) {
  return check(fsync(handle));
}

Io<void> PosixFileSystem::set_mode(Handle handle, mode_t mode) {
  return check(fchmod(handle, mode));
}

Io<void> PosixFileSystem::close(Handle handle) {
  // On Linux the handle is gone even after EINTR, so there is nothing to repeat.
  const auto closed = check(::close(handle));
  return !closed && closed.error() == EINTR ? Io<void>() : closed;
}

Io<FileSystem::Handle> PosixFileSystem::open_lock(const std::string& path, mode_t mode) {
  // For writing too: network file systems give an exclusive lock only to a writer.
  return open(path, O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY, mode);
}

Io<void> PosixFileSystem::try_lock(Handle handle) {
  int result = 0;
  do {
    result = flock(handle, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return check(result);
}

Io<void> PosixFileSystem::unlock(Handle handle) {
  return check(flock(handle, LOCK_UN));
}

Io<std::size_t> PosixFileSystem::read_at(Handle handle, char* buffer, std::size_t size,
                                         std::uint64_t offset) {
  return counted([&] { return pread(handle, buffer, size, static_cast<off_t>(offset)); });
}

Io<std::size_t> PosixFileSystem::write_at(Handle handle, std::string_view bytes,
                                          std::uint64_t offset) {
  return counted(
      [&] { return pwrite(handle, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
}

Io<FileStatus> PosixFileSystem::status(const std::string& path) {
  const auto at = place(path);
  if (!at) {
    return tl::unexpected(at.error());
  }
  struct stat raw;
  if (fstatat(at->folder.get(), at->name.c_str(), &raw, AT_SYMLINK_NOFOLLOW) != 0) {
    return last_error();
  }
  return to_status(raw);
}

Io<void> PosixFileSystem::check_writable(const std::string& directory) {
  const auto handle = open(directory, O_PATH | O_DIRECTORY, 0);
  if (!handle) {
    return tl::unexpected(handle.error());
  }
  const OpenFile folder(*this, *handle);
  return check(faccessat(folder.get(), ".", W_OK | X_OK, AT_EACCESS));
}

Io<std::vector<std::string>> PosixFileSystem::list(const std::string& directory) {
  const auto handle = open(directory, O_RDONLY | O_DIRECTORY, 0);
  if (!handle) {
    return tl::unexpected(handle.error());
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(*handle), &closedir);
  if (stream == nullptr) {
    const int error = errno;
    static_cast<void>(close(*handle));
    return tl::unexpected(error);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* found = readdir(stream.get())) {
    const std::string_view name = found->d_name;
    if (name != "." && name != "..") {
      names.emplace_back(name);
    }
    errno = 0;
  }
  return errno != 0 ? Io<std::vector<std::string>>(last_error()) : names;
}

Io<void> PosixFileSystem::make_directory(const std::string& path, mode_t mode) {
  const auto at = place(path);
  return at ? check(mkdirat(at->folder.get(), at->name.c_str(), mode))
            : Io<void>(tl::unexpected(at.error()));
}

Io<void> PosixFileSystem::touch(const std::string& path) {
  const auto at = place(path);
  // Null, not a time of ours: who may only write the file may set this one, and on a network file
  // system the server's clock is used for every host.
  return at ? check(utimensat(at->folder.get(), at->name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW))
            : Io<void>(tl::unexpected(at.error()));
}

Io<void> PosixFileSystem::rename(const std::string& from, const std::string& to) {
  const auto source = place(from);
  if (!source) {
    return tl::unexpected(source.error());
  }
  const auto target = place(to);
  if (!target) {
    return tl::unexpected(target.error());
  }
  return check(renameat(source->folder.get(), source->name.c_str(), target->folder.get(),
                        target->name.c_str()));
}

Io<void> PosixFileSystem::remove(const std::string& path) {
  const auto at = place(path);
  return at ? check(unlinkat(at->folder.get(), at->name.c_str(), 0))
            : Io<void>(tl::unexpected(at.error()));
}

Io<void> PosixFileSystem::remove_directory(const std::string& path) {
  const auto at = place(path);
  return at ? check(unlinkat(at->folder.get(), at->name.c_str(), AT_REMOVEDIR))
            : Io<void>(tl::unexpected(at.error()));
}

std::chrono::nanoseconds PosixFileSystem::now() {
  return std::chrono::system_clock::now().time_since_epoch();
}

Io<FileContent> read_file(FileSystem& file_system, const std::string& path, std::uint64_t limit) {
  const auto handle = file_system.open_for_read(path);
  if (!handle) {
    return tl::unexpected(handle.error());
  }
  const OpenFile file(file_system, *handle);
  const auto status = file_system.status(file.get());
  if (!status) {
    return tl::unexpected(status.error());
  }
  if (status->kind != FileStatus::Kind::kFile || status->size > limit) {
    return tl::unexpected(status->kind == FileStatus::Kind::kFile ? EFBIG : EINVAL);
  }
  FileContent content{std::string(static_cast<std::size_t>(status->size), '\0'), status->id,
                      status->modified};
  std::size_t filled = 0;
  while (filled < content.bytes.size()) {
    const auto count =
        file_system.read(file.get(), content.bytes.data() + filled, content.bytes.size() - filled);
    if (!count) {
      return tl::unexpected(count.error());
    }
    if (*count == 0) {
      break;  // It became shorter meanwhile; the checks of its content will say so.
    }
    filled += *count;
  }
  content.bytes.resize(filled);
  return content;
}

}  // namespace kiln::cache
