#include "cache/modes.hpp"

namespace kiln::cache {

Io<void> set_directory_mode(FileSystem& file_system, const std::string& path, mode_t mode) {
  const auto handle = file_system.open_directory(path);
  if (!handle) {
    return tl::unexpected(handle.error());
  }
  const OpenFile folder(file_system, *handle);
  return file_system.set_mode(folder.get(), mode);
}

Io<void> make_directory(FileSystem& file_system, const std::string& path, mode_t mode, bool exact) {
  constexpr mode_t kPermissions = 0777;  // What mkdir takes; the rest needs the second call.
  const auto made = file_system.make_directory(path, mode & kPermissions);
  return made && exact ? set_directory_mode(file_system, path, mode) : made;
}

}  // namespace kiln::cache
