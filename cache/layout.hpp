#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cache/key.hpp"

namespace kiln::cache {

/// Where an entry lies below the root: its address.
struct EntryAddress {
  std::string target;
  ToolchainFolder toolchain;
  Digest source;
};

/// The paths below one root; the grammar is in cache/entry.hpp. Pure.
class Layout {
 public:
  /// `root` is canonical, without a slash at its end.
  explicit Layout(std::string root)
      : root_(std::move(root)), top_((root_ == "/" ? "" : root_) + "/v1") {}

  const std::string& root() const noexcept { return root_; }
  /// The folder of this format version; everything the store writes is below it.
  const std::string& top() const noexcept { return top_; }
  std::string target(std::string_view name) const { return top_ + "/" + std::string(name); }
  std::string toolchain(std::string_view target_name, const ToolchainFolder& toolchain) const {
    return target(target_name) + "/" + toolchain.name();
  }
  std::string entry(const EntryAddress& address) const {
    return toolchain(address.target, address.toolchain) + "/" + entry_name(address.source);
  }
  std::string temporary() const { return target(kTemporary); }
  std::string quarantine() const { return target(kQuarantine); }
  std::string locks() const { return target(kLocks); }

  /// Whether this is one of the folders that hold no entries.
  bool is_own_folder(std::string_view path) const {
    return path == temporary() || path == quarantine() || path == locks();
  }
  bool contains(std::string_view path) const {
    return path.size() > top_.size() && path.starts_with(top_) && path[top_.size()] == '/';
  }

  static std::string entry_name(const Digest& source) {
    return source.hex() + std::string(kEntrySuffix);
  }
  /// The digest in an entry's file name; nothing for any other name.
  static std::optional<Digest> parse_entry_name(std::string_view name);
  /// Whether a target can be a folder: letters, digits and '_', and not one of the store's own.
  static bool is_target_name(std::string_view name);

 private:
  static constexpr std::string_view kTemporary = "tmp";
  static constexpr std::string_view kQuarantine = "quarantine";
  static constexpr std::string_view kLocks = "locks";
  static constexpr std::string_view kEntrySuffix = ".cubin";  // What the payload's tools expect.

  std::string root_;
  std::string top_;
};

}  // namespace kiln::cache
