#include "cache/walk.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace kiln::cache {
namespace {

void meet_foreign(const Visitor& visitor, const std::string& path) {
  if (visitor.foreign) {
    visitor.foreign(path);
  }
}

void leave(const Visitor& visitor, const std::string& folder) {
  if (visitor.leave) {
    visitor.leave(folder);
  }
}

void walk_toolchain(FileSystem& file_system, const Layout& layout, const std::string& target,
                    const ToolchainFolder& toolchain, const Visitor& visitor) {
  const std::string folder = layout.toolchain(target, toolchain);
  for (const std::string& name : sorted_names(file_system, folder, visitor)) {
    std::string path = fmt::format("{}/{}", folder, name);
    if (const auto source = Layout::parse_entry_name(name)) {
      visitor.entry({{target, toolchain, *source}, std::move(path)});
    } else {
      meet_foreign(visitor, path);
    }
  }
  leave(visitor, folder);
}

void walk_target(FileSystem& file_system, const Layout& layout, const std::string& target,
                 const Visitor& visitor) {
  const std::string folder = layout.target(target);
  for (const std::string& name : sorted_names(file_system, folder, visitor)) {
    if (const auto toolchain = ToolchainKey::parse_folder(name)) {
      walk_toolchain(file_system, layout, target, *toolchain, visitor);
    } else {
      meet_foreign(visitor, fmt::format("{}/{}", folder, name));
    }
  }
  leave(visitor, folder);
}

}  // namespace

std::vector<std::string> sorted_names(FileSystem& file_system, const std::string& folder,
                                      const Visitor& visitor) {
  auto names = file_system.list(folder);
  if (!names) {
    if (names.error() == ENOTDIR) {
      meet_foreign(visitor, folder);  // A file in a folder's place.
    } else if (names.error() != ENOENT && visitor.fail) {
      visitor.fail(folder, names.error());
    }
    return {};
  }
  std::sort(names->begin(), names->end());
  return std::move(*names);
}

void walk(FileSystem& file_system, const Layout& layout, const Visitor& visitor) {
  for (const std::string& target : sorted_names(file_system, layout.top(), visitor)) {
    const std::string path = layout.target(target);
    if (Layout::is_target_name(target)) {
      walk_target(file_system, layout, target, visitor);
    } else if (!layout.is_own_folder(path)) {
      meet_foreign(visitor, path);
    }
  }
}

}  // namespace kiln::cache
