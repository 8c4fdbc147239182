#pragma once

#include "cache/atomic_file.hpp"
#include "cache/directory_layer.hpp"
#include "cache/entry.hpp"
#include "cache/root_plan.hpp"

namespace kiln::cache {

/// Writes entries into one layer, with the modes that its root's plan asks for.
class Publisher {
 public:
  Publisher(FileSystem& file_system, DirectoryLayer& layer, const RootPlan& plan)
      : file_system_(file_system),
        layer_(layer),
        directory_mode_(plan.directory_mode),
        file_mode_(plan.file_mode) {}

  /// When it returns well, every reader finds the entry.
  IoStatus write(const Entry& entry);

  /// Makes a folder of the layer, and the root, where they are missing.
  IoStatus make_folder(const std::string& path);
  mode_t file_mode() const noexcept { return file_mode_; }

  /// Makes the names of the entries beside this one outlast a crash of the machine.
  IoStatus sync_folder_of(const Entry& entry);

 private:
  IoStatus prepare_root();
  IoStatus make_directories(const std::string& path, mode_t mode);
  IoStatus check_directory(const std::string& path);

  FileSystem& file_system_;
  DirectoryLayer& layer_;
  const mode_t directory_mode_;
  const mode_t file_mode_;
};

}  // namespace kiln::cache
