#include "cache/trimmer.hpp"

#include <algorithm>
#include <cerrno>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "cache/quarantine.hpp"
#include "cache/walk.hpp"

namespace kiln::cache {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kStampGrain = std::chrono::hours(24);
// Another process may have just published it, and not yet looked. So little time that a limit is
// passed by no more than what is published within it.
constexpr nanoseconds kJustNow = std::chrono::seconds(2);
constexpr std::uint64_t kTrimsPerFilling = 16;

// What is left after trimming to a size: enough room for some publishes before the next trim.
std::uint64_t target_of(std::uint64_t max_bytes) {
  return max_bytes - max_bytes / 10;
}

std::optional<Trimmable> look_at(FileSystem& file_system, std::string path, bool quarantined) {
  const auto status = file_system.status(path);
  if (!status || status->kind != FileStatus::Kind::kFile) {
    return std::nullopt;
  }
  // A file system may allocate late, and so tell of less than it will take.
  return Trimmable{std::move(path), std::max(status->size, status->allocated), status->modified,
                   quarantined};
}

std::uint64_t bytes_of(const std::vector<Trimmable>& files) {
  std::uint64_t bytes = 0;
  for (const Trimmable& file : files) {
    bytes += file.bytes;
  }
  return bytes;
}

}  // namespace

std::vector<Trimmable> choose_trimmed(std::vector<Trimmable> all, const Limits& limits,
                                      nanoseconds now, const std::string& keep, nanoseconds grace) {
  const auto used = [now](const Trimmable& file) {
    return file.used - now > kWrongClock ? nanoseconds(0) : file.used;
  };
  std::uint64_t bytes = bytes_of(all);
  const std::uint64_t max_bytes = limits.max_bytes.value_or(0);
  const bool too_large = max_bytes != 0 && bytes > max_bytes;
  const nanoseconds max_age = limits.max_age.value_or(std::chrono::seconds(0));
  std::sort(all.begin(), all.end(), [&used](const Trimmable& a, const Trimmable& b) {
    using Key = std::tuple<bool, nanoseconds, const std::string&>;
    return Key(b.quarantined, used(a), a.path) < Key(a.quarantined, used(b), b.path);
  });
  std::vector<Trimmable> chosen;
  for (Trimmable& file : all) {
    const bool just_used = grace.count() != 0 && now - used(file) < grace && !file.quarantined;
    const bool too_old = max_age.count() != 0 && now - used(file) > max_age;
    if (just_used || file.path == keep ||
        !(too_old || (too_large && bytes > target_of(max_bytes)))) {
      continue;
    }
    bytes -= file.bytes;
    chosen.push_back(std::move(file));
  }
  return chosen;
}

void Trimmer::used(const std::string& path, nanoseconds stamp) {
  const nanoseconds age = file_system_.now() - stamp;
  if (limits_.any() && (age > kStampGrain || -age > kWrongClock)) {
    // An entry that keeps its old stamp goes sooner than it should: no reason to bother anybody.
    static_cast<void>(file_system_.touch(path));
  }
}

void Trimmer::published(const std::string& path, std::uint64_t bytes) {
  if (!limits_.any()) {
    return;
  }
  const std::uint64_t max_bytes = limits_.max_bytes.value_or(0);
  const std::uint64_t step = max_bytes / kTrimsPerFilling;
  const std::uint64_t untrimmed = untrimmed_bytes_.fetch_add(bytes) + bytes;
  const bool due = !begun_.exchange(true) || (max_bytes != 0 && untrimmed >= step);
  if (!due) {
    return;
  }
  untrimmed_bytes_ = 0;
  Limits limits = limits_;
  if (max_bytes != 0) {
    limits.max_bytes = max_bytes - step;  // What may come before the next trim.
  }
  // The new file's own stamp is the file system's clock, by which all the others are stamped.
  const auto status = file_system_.status(path);
  const TrimReport report =
      trim(limits, status ? status->modified : file_system_.now(), path, kJustNow);
  if (!report.problem.empty()) {
    logger_.warn_once("cache.disk", fmt::format("cache: {}.", report.problem));
  }
}

TrimReport Trimmer::trim(const Limits& limits) {
  return trim(limits, file_system_.now(), "", nanoseconds(0));
}

TrimReport Trimmer::trim(const Limits& limits, nanoseconds now, const std::string& keep,
                         nanoseconds grace) {
  const std::lock_guard lock(trimming_);
  TrimReport report;
  std::vector<Trimmable> all = find_all(report);
  report.kept = all.size();
  report.kept_bytes = bytes_of(all);
  remove(choose_trimmed(std::move(all), limits, now, keep, grace), report);
  return report;
}

std::vector<Trimmable> Trimmer::find_all(TrimReport& report) {
  std::vector<Trimmable> all;
  Visitor visitor;
  const auto add = [&](std::string path, bool quarantined) {
    if (auto found = look_at(file_system_, std::move(path), quarantined)) {
      all.push_back(std::move(*found));
    }
  };
  visitor.entry = [&](const FoundEntry& found) { add(found.path, false); };
  visitor.fail = [&](const std::string& folder, int error) {
    if (report.problem.empty()) {
      report.problem = fmt::format("cannot list {}: {}", folder, errno_text(error));
    }
  };
  visitor.foreign = [&](const std::string& path) {
    logger_.warn_once("cache.foreign",
                      fmt::format("cache: {} is not a file of the cache and is left alone; more "
                                  "like it are not told of.",
                                  path));
  };
  walk(file_system_, layout_, visitor);
  for (const std::string& name : sorted_names(file_system_, layout_.quarantine(), visitor)) {
    if (is_quarantine_name(name)) {
      add(fmt::format("{}/{}", layout_.quarantine(), name), true);
    } else {
      visitor.foreign(fmt::format("{}/{}", layout_.quarantine(), name));
    }
  }
  return all;
}

void Trimmer::remove(const std::vector<Trimmable>& chosen, TrimReport& report) {
  std::set<std::string> folders;
  for (const Trimmable& file : chosen) {
    // Since it was listed, it may have been used, or removed and published again.
    const auto now = file_system_.status(file.path);
    if (now && now->modified != file.used) {
      continue;
    }
    const auto removed = file_system_.remove(file.path);
    if (!removed && removed.error() != ENOENT) {
      if (report.problem.empty()) {
        report.problem =
            fmt::format("cannot remove {}: {}", file.path, errno_text(removed.error()));
      }
      continue;
    }
    --report.kept;
    report.kept_bytes -= file.bytes;
    if (removed) {  // And not another process.
      ++report.removed;
      report.removed_bytes += file.bytes;
      folders.insert(parent_path(file.path));
    }
  }
  trimmed_.fetch_add(report.removed, std::memory_order_relaxed);
  // A toolchain that nobody uses any more leaves an empty folder; others are not empty and stay.
  for (const std::string& folder : folders) {
    if (file_system_.remove_directory(folder)) {
      static_cast<void>(file_system_.remove_directory(parent_path(folder)));
    }
  }
}

}  // namespace kiln::cache
