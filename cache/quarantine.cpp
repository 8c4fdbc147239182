#include "cache/quarantine.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <fmt/format.h>

namespace kiln::cache {
namespace {

// The names start with the time, so their order is their age.
void drop_oldest(FileSystem& file_system, const std::string& folder) {
  auto names = file_system.list(folder);
  if (!names || names->size() <= kMaxQuarantined) {
    return;
  }
  std::sort(names->begin(), names->end());
  names->resize(names->size() - kMaxQuarantined);
  for (const std::string& name : *names) {
    static_cast<void>(file_system.remove(fmt::format("{}/{}", folder, name)));
  }
}

}  // namespace

Io<std::string> move_to_quarantine(FileSystem& file_system, const Layout& layout,
                                   const std::string& path) {
  const std::string folder = layout.quarantine();
  const auto made = file_system.make_directory(folder, 0700);
  if (!made && made.error() != EEXIST) {
    return tl::unexpected(made.error());
  }
  std::string name = path.substr(layout.top().size() + 1);
  std::replace(name.begin(), name.end(), '/', '-');
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  const std::string moved = fmt::format("{}/{:016x}-{}", folder, nanoseconds, name);
  const auto renamed = file_system.rename(path, moved);
  if (!renamed) {
    return tl::unexpected(renamed.error());
  }
  drop_oldest(file_system, folder);
  return moved;
}

}  // namespace kiln::cache
