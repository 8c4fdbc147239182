#include "runtime/manifest_lock.hpp"

#include <cerrno>
#include <utility>

#include "cache/atomic_file.hpp"
#include "cache/wait_clock.hpp"

namespace kiln::runtime {
namespace {

// A writer holds the lock for as long as one small file takes.
constexpr std::chrono::milliseconds kBetweenTries{2};

// As readable as the umask says.
constexpr mode_t kMode = 0666;

}  // namespace

ManifestLock::ManifestLock(cache::FileSystem& disk, cache::OpenFile file)
    : disk_(&disk), file_(std::move(file)) {}

ManifestLock::ManifestLock(ManifestLock&& other) noexcept
    : disk_(std::exchange(other.disk_, nullptr)), file_(std::move(other.file_)) {}

ManifestLock::~ManifestLock() {
  if (disk_ != nullptr) {
    static_cast<void>(disk_->unlock(file_.get()));
  }
}

Result<std::optional<ManifestLock>> ManifestLock::take(cache::FileSystem& disk,
                                                       const std::string& path,
                                                       std::chrono::milliseconds patience) {
  const std::string lock = path + ".lock";
  const auto failed = [&](int code) {
    return fail(ErrorCode::kIo, cache::io_failure("lock", lock, code).what);
  };
  const auto handle = disk.open_lock(lock, kMode);
  if (!handle) {
    return failed(handle.error());
  }
  cache::OpenFile file(disk, *handle);
  cache::SteadyWaitClock clock;
  const auto deadline = clock.now() + patience;
  for (;;) {
    const auto locked = disk.try_lock(file.get());
    if (locked) {
      return std::optional<ManifestLock>(ManifestLock(disk, std::move(file)));
    }
    if (locked.error() != EWOULDBLOCK) {
      return failed(locked.error());
    }
    if (clock.now() >= deadline) {
      return std::optional<ManifestLock>();
    }
    clock.sleep(kBetweenTries);
  }
}

}  // namespace kiln::runtime
