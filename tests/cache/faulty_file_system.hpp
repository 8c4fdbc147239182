#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "cache/file_system.hpp"

namespace kiln::cache::test {

/// The calls of FileSystem, by name. The two status calls fail and count apart.
enum class Call {
  kCanonical,
  kOpenForRead,
  kCreate,
  kOpenDirectory,
  kHandleStatus,
  kRead,
  kWrite,
  kSync,
  kSetMode,
  kClose,
  kOpenLock,
  kTryLock,
  kUnlock,
  kReadAt,
  kWriteAt,
  kPathStatus,
  kCheckWritable,
  kList,
  kMakeDirectory,
  kTouch,
  kRename,
  kRemove,
  kRemoveDirectory,
  kCount
};

/// The real file system, with its calls counted and chosen ones failing.
class FaultyFileSystem : public FileSystem {
 public:
  /// From now on the n-th (1 is the next) call of this kind fails; 0: every one.
  void fail(Call call, int error, int nth = 0) {
    const std::lock_guard lock(mutex_);
    failing_ = call;
    error_ = error;
    every_ = nth == 0;
    countdown_ = nth;
    faults_ = 0;
    active_ = true;
  }
  void heal() {
    const std::lock_guard lock(mutex_);
    active_ = false;
  }
  /// Every write from now on takes at most this many bytes.
  void write_at_most(std::size_t bytes) { write_limit_ = bytes; }
  void skip_sync() { skip_sync_ = true; }
  /// Locking succeeds for everyone, as on a file system that only pretends to lock.
  void ignore_locks() { ignore_locks_ = true; }
  /// The file system's clock is ahead of the true one by this much.
  void shift_clock(std::chrono::seconds shift) { clock_shift_ = shift; }
  /// From now on so many bytes are written; then every call fails, as for a process that is gone.
  void die_after(std::size_t bytes) {
    life_ = bytes;
    mortal_ = true;
  }
  /// From now on so many bytes are written, and then none, for want of space.
  void fill_after(std::size_t bytes) {
    space_ = bytes;
    finite_ = true;
  }

  /// From now on it is so long since 1970, also for what is renamed into place or touched.
  void set_clock(std::chrono::seconds time) { clock_ = time; }
  void advance_clock(std::chrono::seconds step) { clock_ = clock_.load() + step; }

  int faults() const {
    const std::lock_guard lock(mutex_);
    return faults_;
  }
  int calls(Call call) const { return calls_[static_cast<std::size_t>(call)]; }
  int successful_opens() const { return successful_opens_; }
  int writing_calls() const {
    return calls(Call::kCreate) + calls(Call::kWrite) + calls(Call::kMakeDirectory) +
           calls(Call::kRename) + calls(Call::kRemove) + calls(Call::kRemoveDirectory) +
           calls(Call::kSync) + calls(Call::kSetMode) + calls(Call::kTouch) +
           calls(Call::kOpenLock) + calls(Call::kWriteAt);
  }
  void reset_counts() {
    for (auto& count : calls_) {
      count = 0;
    }
    successful_opens_ = 0;
  }

  Io<std::string> canonical(const std::string& path) override {
    return run<std::string>(Call::kCanonical, [&] { return real_.canonical(path); });
  }
  Io<Handle> open_for_read(const std::string& path) override {
    auto opened = run<Handle>(Call::kOpenForRead, [&] { return real_.open_for_read(path); });
    successful_opens_ += opened ? 1 : 0;
    return opened;
  }
  Io<Handle> create(const std::string& path, mode_t mode) override {
    return run<Handle>(Call::kCreate, [&] { return real_.create(path, mode); });
  }
  Io<Handle> open_directory(const std::string& path) override {
    return run<Handle>(Call::kOpenDirectory, [&] { return real_.open_directory(path); });
  }
  Io<FileStatus> status(Handle handle) override {
    return run<FileStatus>(Call::kHandleStatus, [&] { return real_.status(handle); });
  }
  Io<std::size_t> read(Handle handle, char* buffer, std::size_t size) override {
    return run<std::size_t>(Call::kRead, [&] { return real_.read(handle, buffer, size); });
  }
  Io<std::size_t> write(Handle handle, std::string_view bytes) override {
    return run<std::size_t>(Call::kWrite, [&]() -> Io<std::size_t> {
      bytes = bytes.substr(0, std::min(bytes.size(), write_limit_.load()));
      if (finite_) {
        bytes = bytes.substr(0, std::min(bytes.size(), space_.load()));
        space_ -= bytes.size();
        if (bytes.empty()) {
          return tl::unexpected(ENOSPC);
        }
      }
      if (mortal_ && bytes.size() >= life_) {
        static_cast<void>(real_.write(handle, bytes.substr(0, life_)));
        dead_ = true;
        return tl::unexpected(EIO);
      }
      life_ -= mortal_ ? bytes.size() : 0;
      return real_.write(handle, bytes);
    });
  }
  Io<void> sync(Handle handle) override {
    return run<void>(Call::kSync, [&] { return skip_sync_ ? Io<void>() : real_.sync(handle); });
  }
  Io<void> set_mode(Handle handle, mode_t mode) override {
    return run<void>(Call::kSetMode, [&] { return real_.set_mode(handle, mode); });
  }
  Io<void> close(Handle handle) override {
    // The handle is gone even when close fails.
    const auto closed = real_.close(handle);
    return run<void>(Call::kClose, [&] { return closed; });
  }
  Io<Handle> open_lock(const std::string& path, mode_t mode) override {
    return run<Handle>(Call::kOpenLock, [&] { return real_.open_lock(path, mode); });
  }
  Io<void> try_lock(Handle handle) override {
    return run<void>(Call::kTryLock,
                     [&] { return ignore_locks_ ? Io<void>() : real_.try_lock(handle); });
  }
  Io<void> unlock(Handle handle) override {
    return run<void>(Call::kUnlock, [&] { return real_.unlock(handle); });
  }
  Io<std::size_t> read_at(Handle handle, char* buffer, std::size_t size,
                          std::uint64_t offset) override {
    return run<std::size_t>(Call::kReadAt,
                            [&] { return real_.read_at(handle, buffer, size, offset); });
  }
  Io<std::size_t> write_at(Handle handle, std::string_view bytes, std::uint64_t offset) override {
    return run<std::size_t>(Call::kWriteAt, [&] { return real_.write_at(handle, bytes, offset); });
  }
  Io<FileStatus> status(const std::string& path) override {
    return run<FileStatus>(Call::kPathStatus, [&] {
      auto status = real_.status(path);
      if (status) {
        status->modified += clock_shift_.load();
      }
      return status;
    });
  }
  Io<void> check_writable(const std::string& directory) override {
    return run<void>(Call::kCheckWritable, [&] { return real_.check_writable(directory); });
  }
  Io<std::vector<std::string>> list(const std::string& directory) override {
    return run<std::vector<std::string>>(Call::kList, [&] { return real_.list(directory); });
  }
  Io<void> make_directory(const std::string& path, mode_t mode) override {
    return run<void>(Call::kMakeDirectory, [&] { return real_.make_directory(path, mode); });
  }
  Io<void> rename(const std::string& from, const std::string& to) override {
    return run<void>(Call::kRename, [&] {
      auto renamed = real_.rename(from, to);
      if (renamed) {
        stamp(to);
      }
      return renamed;
    });
  }
  Io<void> touch(const std::string& path) override {
    return run<void>(Call::kTouch, [&] {
      auto touched = real_.touch(path);
      if (touched) {
        stamp(path);
      }
      return touched;
    });
  }
  Io<void> remove(const std::string& path) override {
    return run<void>(Call::kRemove, [&] { return real_.remove(path); });
  }
  Io<void> remove_directory(const std::string& path) override {
    return run<void>(Call::kRemoveDirectory, [&] { return real_.remove_directory(path); });
  }
  std::chrono::nanoseconds now() override {
    return clock_.load() == kRealTime ? real_.now() : clock_.load();
  }

 private:
  static constexpr std::chrono::seconds kRealTime{-1};

  void stamp(const std::string& path) const {
    const std::chrono::seconds time = clock_;
    if (time != kRealTime) {
      const timespec times[2] = {{time.count(), 0}, {time.count(), 0}};
      static_cast<void>(utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW));
    }
  }

  template <class T, class Function>
  Io<T> run(Call call, Function&& function) {
    ++calls_[static_cast<std::size_t>(call)];
    if (dead_) {
      return tl::unexpected(EIO);
    }
    {
      const std::lock_guard lock(mutex_);
      if (active_ && call == failing_ && (every_ || --countdown_ == 0)) {
        active_ = every_;
        ++faults_;
        return tl::unexpected(error_);
      }
    }
    return function();
  }

  PosixFileSystem real_;
  std::atomic<int> calls_[static_cast<std::size_t>(Call::kCount)] = {};
  std::atomic<int> successful_opens_ = 0;
  std::atomic<std::size_t> write_limit_ = SIZE_MAX;
  std::atomic<bool> skip_sync_ = false;
  std::atomic<bool> ignore_locks_ = false;
  std::atomic<std::chrono::nanoseconds> clock_shift_ = std::chrono::nanoseconds(0);
  std::atomic<bool> mortal_ = false;
  std::atomic<bool> dead_ = false;
  std::atomic<std::size_t> life_ = 0;
  std::atomic<bool> finite_ = false;
  std::atomic<std::size_t> space_ = 0;
  std::atomic<std::chrono::seconds> clock_ = kRealTime;
  mutable std::mutex mutex_;
  bool active_ = false;
  bool every_ = false;
  Call failing_ = Call::kCount;
  int error_ = 0;
  int countdown_ = 0;
  int faults_ = 0;
};

}  // namespace kiln::cache::test
