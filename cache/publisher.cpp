#include "cache/publisher.hpp"

#include <cerrno>

#include "cache/writer.hpp"

namespace kiln::cache {

// A folder that is a link would lead out of the cache.
IoStatus Publisher::check_directory(const std::string& path) {
  const auto status = file_system_.status(path);
  if (!status) {
    return tl::unexpected(io_failure("use", path, status.error()));
  }
  switch (status->kind) {
    case FileStatus::Kind::kDirectory:
      return {};
    case FileStatus::Kind::kSymlink:
      return tl::unexpected(io_failure("use", path, ELOOP));
    default:
      return tl::unexpected(io_failure("use", path, ENOTDIR));
  }
}

// What is missing above `path` gets the mode of the layer's folders.
IoStatus Publisher::make_directories(const std::string& path, mode_t mode) {
  auto checked = check_directory(path);
  if (checked || checked.error().code != ENOENT || path == "/") {
    return checked;
  }
  if (auto parent = make_directories(parent_path(path), directory_mode_); !parent) {
    return parent;
  }
  const auto made = file_system_.make_directory(path, mode);
  if (!made && made.error() == EEXIST) {
    return check_directory(path);  // Another process made it.
  }
  return made ? IoStatus() : tl::unexpected(io_failure("create", path, made.error()));
}

IoStatus Publisher::prepare_root() {
  const std::string& root = layer_.layout().root();
  if (auto made = make_directories(root, directory_mode_); !made) {
    return made;
  }
  if (const auto owned = layer_.check_owner(); !owned) {
    return tl::unexpected(io_failure("use", root, owned.error()));
  }
  return {};
}

IoStatus Publisher::make_folder(const std::string& path) {
  auto prepared = prepare_root();
  return prepared ? make_directories(path, directory_mode_) : prepared;
}

IoStatus Publisher::write(const Entry& entry) {
  const Layout& layout = layer_.layout();
  const ToolchainFolder toolchain = entry.toolchain.folder_key();
  if (auto prepared = prepare_root(); !prepared) {
    return prepared;
  }
  // Nobody else has business with half-written files.
  if (auto made = make_directories(layout.temporary(), 0700); !made) {
    return made;
  }
  if (auto made =
          make_directories(layout.toolchain(entry.source.target, toolchain), directory_mode_);
      !made) {
    return made;
  }
  AtomicFile file(file_system_, layout.temporary() + "/" + temporary_name(this_writer()),
                  layout.entry({entry.source.target, toolchain, entry.source.digest}));
  if (auto written = file.write(encode_entry(entry), file_mode_); !written) {
    return written;
  }
  if (auto committed = file.commit(); !committed) {
    return committed;
  }
  layer_.add_toolchain(entry.source.target, toolchain);
  return {};
}

IoStatus Publisher::sync_folder_of(const Entry& entry) {
  return sync_directory(
      file_system_, layer_.layout().toolchain(entry.source.target, entry.toolchain.folder_key()));
}

}  // namespace kiln::cache
