#include "runtime/recorder.hpp"

#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "cache/atomic_file.hpp"
#include "cache/wait_clock.hpp"

namespace kiln::runtime {
namespace {

// A writer holds the lock for as long as one small file takes.
constexpr std::chrono::milliseconds kPatience{2000};
constexpr std::chrono::milliseconds kBetweenTries{2};

// As readable as the umask says.
constexpr mode_t kMode = 0666;

}  // namespace

std::string with_process_id(std::string path) {
  constexpr std::string_view kMark = "%p";
  const std::string id = std::to_string(getpid());
  for (auto at = path.find(kMark); at != std::string::npos; at = path.find(kMark, at)) {
    path.replace(at, kMark.size(), id);
  }
  return path;
}

/// The lock, held.
class Recorder::Lock {
 public:
  Lock(cache::FileSystem& disk, cache::OpenFile file) : disk_(&disk), file_(std::move(file)) {}
  Lock(Lock&& other) noexcept
      : disk_(std::exchange(other.disk_, nullptr)), file_(std::move(other.file_)) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  Lock& operator=(Lock&&) = delete;
  ~Lock() {
    if (disk_ != nullptr) {
      static_cast<void>(disk_->unlock(file_.get()));
    }
  }

 private:
  cache::FileSystem* disk_;
  cache::OpenFile file_;
};

Recorder::Recorder(const std::string& path, const Logger& logger) : logger_(logger) {
  if (path.empty()) {
    return;
  }
  path_ = with_process_id(path);
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path_, error);
  const auto found = error ? cache::Io<std::string>(tl::unexpected(error.value()))
                           : disk_.canonical(absolute.string());
  if (!found) {
    stop(cache::errno_text(found.error()));
    return;
  }
  path_ = *found;
  on_ = true;
}

Recorder::~Recorder() {
  used({});
}

void Recorder::used(std::span<const Variant> variants) noexcept {
  if (!on()) {
    return;
  }
  try {
    const std::lock_guard lock(mutex_);
    for (const Variant& variant : variants) {
      unsaved_ |= seen_.variants.insert(ManifestEntry::of(variant)).second;
    }
    if (unsaved_) {
      save();
    }
  } catch (const std::exception& error) {
    stop(error.what());
  }
}

void Recorder::save() {
  const Result<std::optional<Lock>> lock = take_lock();
  if (!lock) {
    return stop(lock.error().message);
  }
  if (!lock->has_value()) {
    return;
  }
  Result<Manifest> manifest = stored();
  if (!manifest) {
    return stop(manifest.error().message);
  }
  const std::size_t before = manifest->variants.size();
  manifest->merge(seen_);
  if (manifest->variants.size() > before) {
    // Who holds the lock is the only writer, so what lies there was left by one that died.
    if (const Status written = manifest->write(disk_, path_, path_ + ".tmp"); !written) {
      return stop(written.error().message);
    }
  }
  unsaved_ = false;
}

Result<std::optional<Recorder::Lock>> Recorder::take_lock() {
  const std::string path = path_ + ".lock";
  const auto failed = [&](int code) {
    return fail(ErrorCode::kIo, cache::io_failure("lock", path, code).what);
  };
  const auto handle = disk_.open_lock(path, kMode);
  if (!handle) {
    return failed(handle.error());
  }
  cache::OpenFile file(disk_, *handle);
  cache::SteadyWaitClock clock;
  const auto deadline = clock.now() + (waited_out_ ? std::chrono::milliseconds(0) : kPatience);
  for (;;) {
    const auto locked = disk_.try_lock(file.get());
    if (locked) {
      return std::optional<Lock>(Lock(disk_, std::move(file)));
    }
    if (locked.error() != EWOULDBLOCK) {
      return failed(locked.error());
    }
    if (clock.now() >= deadline) {
      waited_out_ = true;
      return std::optional<Lock>();
    }
    clock.sleep(kBetweenTries);
  }
}

Result<Manifest> Recorder::stored() {
  const auto content = cache::read_file(disk_, path_, Manifest::kMostBytes);
  if (!content && content.error() != ENOENT) {
    return fail(ErrorCode::kIo, cache::io_failure("read", path_, content.error()).what);
  }
  // An empty file, as mktemp makes it, holds nothing that could be lost.
  if (!content || content->bytes.empty()) {
    return Manifest();
  }
  return Manifest::parse(content->bytes, path_);
}

void Recorder::stop(const std::string& why) {
  on_ = false;
  logger_.warn_once(
      "record", fmt::format("record: the variants in use are not recorded in {}: {}.", path_, why));
}

}  // namespace kiln::runtime
