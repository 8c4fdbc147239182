#include "cache/quarantine.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <fmt/format.h>

namespace kiln::cache {
namespace {

constexpr std::size_t kTimeDigits = 16;

// The names start with the time, so their order is their age.
void drop_oldest(FileSystem& file_system, const std::string& folder) {
  auto names = file_system.list(folder);
  if (!names || names->size() <= kMaxQuarantined) {
    return;
  }
  std::erase_if(*names, [](const std::string& name) { return !is_quarantine_name(name); });
  if (names->size() <= kMaxQuarantined) {
    return;
  }
  std::sort(names->begin(), names->end());
  names->resize(names->size() - kMaxQuarantined);
  for (const std::string& name : *names) {
    const std::string path = fmt::format("{}/{}", folder, name);
    const auto removed = file_system.remove(path);
    if (!removed && removed.error() == EISDIR) {
      static_cast<void>(file_system.remove_directory(path));
    }
  }
}

}  // namespace

Io<std::string> move_to_quarantine(FileSystem& file_system, const Layout& layout,
                                   const Modes& modes, const std::string& path) {
  const std::string folder = layout.quarantine();
  const auto made = make_directory(file_system, folder, modes.work_directory, modes.exact);
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

bool is_quarantine_name(std::string_view name) {
  constexpr std::string_view kHexadecimal = "0123456789abcdef";
  return name.size() > kTimeDigits + 1 && name[kTimeDigits] == '-' &&
         name.substr(0, kTimeDigits).find_first_not_of(kHexadecimal) == std::string_view::npos;
}

}  // namespace kiln::cache
