#include "cache/directory_layer.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>

#include <fmt/format.h>

namespace kiln::cache {
namespace {

using Kind = LayerFailure::Kind;

bool absent(int error) {
  return error == ENOENT || error == ENOTDIR;
}

// Links, folders, pipes, devices and huge files in an entry's place.
bool not_an_entry(int error) {
  return error == ELOOP || error == EINVAL || error == EFBIG;
}

tl::unexpected<LayerFailure> failed(Kind kind, std::string place, std::string reason) {
  return tl::unexpected(LayerFailure{kind, std::move(place), std::move(reason)});
}

}  // namespace

Layered<void> DirectoryLayer::check() {
  const Verdict verdict = trust();
  if (verdict.ok()) {
    return {};
  }
  if (verdict.remedy.empty()) {  // The disk spoke, not the rule.
    return failed(absent(verdict.code) ? Kind::kAbsent : Kind::kUnreadable, layout_.root(),
                  verdict.reason);
  }
  return failed(
      Kind::kRejected, layout_.root(),
      fmt::format("{}. {}", verdict.reason, verdict.remedy.substr(0, verdict.remedy.size() - 1)));
}

Layered<std::vector<ToolchainFolder>> DirectoryLayer::toolchains(const std::string& target) {
  const std::lock_guard lock(mutex_);
  const auto known = toolchains_.find(target);
  if (known != toolchains_.end()) {
    return known->second;
  }
  const std::string path = layout_.target(target);
  const auto names = file_system_.list(path);
  if (!names && !absent(names.error())) {
    return failed(Kind::kUnreadable, path, errno_text(names.error()));
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

Layered<LayerBytes> DirectoryLayer::read(const EntryAddress& address) {
  std::string path = layout_.entry(address);
  auto content = read_file(file_system_, path, kMaxEntryBytes);
  if (content) {
    return LayerBytes{std::move(content->bytes), content->id, content->modified};
  }
  const int error = content.error();
  if (not_an_entry(error)) {
    return failed(Kind::kRejected, std::move(path), "it is not a plain file: " + errno_text(error));
  }
  return failed(absent(error) ? Kind::kAbsent : Kind::kUnreadable, std::move(path),
                errno_text(error));
}

std::vector<ListedEntry> DirectoryLayer::list() {
  return list_entries(file_system_, layout_);
}

StoreUsage DirectoryLayer::usage() {
  return measure(file_system_, layout_);
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
