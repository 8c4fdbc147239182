#include "cache/rejects.hpp"

#include <cerrno>

#include <fmt/format.h>

#include "cache/quarantine.hpp"

namespace kiln::cache {
namespace {

bool absent(int error) {
  return error == ENOENT || error == ENOTDIR;
}

}  // namespace

bool Rejects::contains(const std::string& place) {
  const std::lock_guard lock(mutex_);
  return !places_.empty() && places_.contains(place);
}

void Rejects::forget(const std::string& place) {
  const std::lock_guard lock(mutex_);
  places_.erase(place);
}

Rejects::Fate Rejects::move_away(const std::string& path, const Layout& home, const FileId& file,
                                 std::string& moved_to) {
  const auto now = file_system_.status(path);
  if (now ? now->id != file : absent(now.error())) {
    return Fate::kGone;
  }
  const auto moved = move_to_quarantine(file_system_, home, modes_, path);
  if (!moved) {
    return absent(moved.error()) ? Fate::kGone : Fate::kStays;
  }
  moved_to = *moved;
  return Fate::kMoved;
}

void Rejects::add(const std::string& place, const Layout* home, const std::optional<FileId>& file,
                  std::string_view reason) {
  count_.fetch_add(1, std::memory_order_relaxed);
  std::string moved_to;
  Fate fate = Fate::kStays;
  // What is not a plain file stays where it is: moving it could reach out of the cache.
  if (home != nullptr && file) {
    fate = move_away(place, *home, *file, moved_to);
  }
  if (fate == Fate::kGone) {
    return;
  }
  if (fate == Fate::kStays) {
    const std::lock_guard lock(mutex_);
    places_.insert(place);
  }
  logger_.warn_once(
      "cache.reject:" + place,
      fmt::format("cache: {} is not used: {}; {}.", place, reason,
                  fate == Fate::kMoved ? "it was moved to " + moved_to : "it is skipped"));
}

}  // namespace kiln::cache
