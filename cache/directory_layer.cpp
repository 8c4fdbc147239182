#include "cache/directory_layer.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>

#include "cache/root_plan.hpp"

namespace kiln::cache {

Io<void> DirectoryLayer::check_owner() {
  if (!required_owner_ || owner_checked_.load(std::memory_order_relaxed)) {
    return {};
  }
  const auto checked = check_private_directory(file_system_, layout_.root(), *required_owner_);
  owner_checked_.store(checked.has_value(), std::memory_order_relaxed);
  return checked;
}

Io<std::vector<ToolchainFolder>> DirectoryLayer::toolchains(const std::string& target) {
  const std::lock_guard lock(mutex_);
  const auto known = toolchains_.find(target);
  if (known != toolchains_.end()) {
    return known->second;
  }
  const auto names = file_system_.list(layout_.target(target));
  if (!names && names.error() != ENOENT && names.error() != ENOTDIR) {
    return tl::unexpected(names.error());
  }
  std::vector<ToolchainFolder> folders;
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    if (const auto folder = ToolchainKey::parse_folder(name)) {
      folders.push_back(*folder);
    }
  }
  std::sort(folders.begin(), folders.end(), std::greater<>());
  return toolchains_.emplace(target, std::move(folders)).first->second;
}

void DirectoryLayer::add_toolchain(const std::string& target, const ToolchainFolder& toolchain) {
  const std::lock_guard lock(mutex_);
  const auto known = toolchains_.find(target);
  if (known == toolchains_.end()) {
    return;  // Not listed yet; the listing will find it.
  }
  auto& folders = known->second;
  const auto at = std::lower_bound(folders.begin(), folders.end(), toolchain, std::greater<>());
  if (at == folders.end() || *at != toolchain) {
    folders.insert(at, toolchain);
  }
}

}  // namespace kiln::cache
