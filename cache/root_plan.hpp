#pragma once

#include <optional>
#include <string>

#include "cache/file_system.hpp"
#include "cache/root.hpp"

namespace kiln::cache {

/// What the chosen root can be used for, found out without writing anything.
struct RootPlan {
  std::string writable;   ///< Canonical; where new entries go. Empty: nowhere.
  std::string read_only;  ///< Canonical; the chosen root where it can only be read. Else empty.
  /// Set for the fallback root, which lies where everybody may write: before it is used it must be
  /// a real directory of this user that nobody else can write.
  std::optional<uid_t> required_owner;
  /// Of what the store creates. A named root is as readable as the umask says, so that a root built
  /// as one user serves another; a default root is private. Never writable by others.
  mode_t directory_mode = 0700;
  mode_t file_mode = 0600;
  std::string description;  ///< "/home/u/.cache/kiln (from HOME), writable".
  std::string warning;      ///< Empty when new entries go where they were meant to.
};

RootPlan plan_root(FileSystem& file_system, const RootInputs& inputs);

/// A real directory of `owner` that nobody else can write; else the errno that says it best.
Io<void> check_private_directory(FileSystem& file_system, const std::string& path, uid_t owner);

}  // namespace kiln::cache
