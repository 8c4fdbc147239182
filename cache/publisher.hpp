#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cache/atomic_file.hpp"
#include "cache/directory_layer.hpp"
#include "cache/entry.hpp"
#include "cache/root_plan.hpp"

namespace kiln::cache {

/// Writes entries into one layer, with the modes that its root's plan asks for.
class Publisher {
 public:
  Publisher(FileSystem& file_system, DirectoryLayer& layer, const RootPlan& plan)
      : file_system_(file_system), layer_(layer), modes_(plan.modes), uid_(plan.policy.uid) {}

  /// When it returns well, every reader finds the entry. A folder that is removed meanwhile is made
  /// again; a folder in the entry's own place goes to the quarantine. Gives the entry's size.
  tl::expected<std::uint64_t, IoFailure> write(const Entry& entry);

  /// Whether entries can be written now: makes the folders that each of them needs and a file,
  /// which it removes again.
  IoStatus try_write();

  /// Makes one of the layer's own folders, and the root, where they are missing.
  IoStatus make_folder(const std::string& path);
  mode_t file_mode() const noexcept { return modes_.file; }
  /// Gives a file that was made with file_mode() what the umask took away, if that is wanted.
  IoStatus share(FileSystem::Handle handle, const std::string& path);

  /// Makes the names of the entries beside this one outlast a crash of the machine.
  IoStatus sync_folder_of(const Entry& entry);

 private:
  IoStatus prepare_root();
  IoStatus make_temporary_folder();
  IoStatus make_folders_of(const Entry& entry);
  IoStatus write_once(const Entry& entry, std::string_view bytes);
  IoStatus commit(AtomicFile& file, const std::string& path);
  IoStatus make_directories(const std::string& path, mode_t mode);
  IoStatus check_directory(const std::string& path, mode_t mode);

  FileSystem& file_system_;
  DirectoryLayer& layer_;
  const Modes modes_;
  const uid_t uid_;
};

}  // namespace kiln::cache
