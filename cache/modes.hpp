#pragma once

#include <string>

#include "cache/file_system.hpp"

namespace kiln::cache {

/// The permissions of what a store creates. What exists already keeps its own.
struct Modes {
  mode_t directory = 0700;
  mode_t file = 0600;
  mode_t work_directory = 0700;  ///< Of the store's own folders: unfinished and rejected files.
  /// The umask takes nothing away.
  bool exact = false;

  /// A default or fallback root: for its user alone.
  static Modes private_to_user() { return {}; }
  /// A named root: as readable as the umask says, so that a root built as one user serves another.
  static Modes readable() { return {0755, 0644, 0700, false}; }
  /// A root that a group shares. The set-group-ID bit hands the root's group down to what is made
  /// by whoever is in it.
  static Modes group_shared() { return {02770, 0660, 02770, true}; }
};

/// Whatever the umask.
Io<void> set_directory_mode(FileSystem& file_system, const std::string& path, mode_t mode);

/// Makes one folder. EEXIST when the name is taken.
Io<void> make_directory(FileSystem& file_system, const std::string& path, mode_t mode, bool exact);

}  // namespace kiln::cache
