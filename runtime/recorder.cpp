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
#include "runtime/manifest_lock.hpp"

namespace kiln::runtime {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};

}  // namespace

std::string with_process_id(std::string path) {
  constexpr std::string_view kMark = "%p";
  const std::string id = std::to_string(getpid());
  for (auto at = path.find(kMark); at != std::string::npos; at = path.find(kMark, at)) {
    path.replace(at, kMark.size(), id);
  }
  return path;
}

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
  const auto lock =
      ManifestLock::take(disk_, path_, waited_out_ ? std::chrono::milliseconds(0) : kPatience);
  if (!lock) {
    return stop(lock.error().message);
  }
  if (!lock->has_value()) {
    if (!std::exchange(waited_out_, true)) {
      logger_.warn_once("record lock",
                        fmt::format("record: another process has kept {}.lock for {:g} s; what is "
                                    "in use is written when it lets go, or not at all.",
                                    path_, std::chrono::duration<double>(kPatience).count()));
    }
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
