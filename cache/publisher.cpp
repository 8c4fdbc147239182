#include "cache/publisher.hpp"

#include <cerrno>

#include <fmt/format.h>

#include "cache/modes.hpp"
#include "cache/quarantine.hpp"
#include "cache/writer.hpp"

namespace kiln::cache {

namespace {

// Clearing and trimming remove folders at any moment, so a publish may have to begin again.
constexpr int kAttempts = 16;

// What a write needs at least, of a disk that is full as of one that is not.
constexpr std::size_t kTrialBytes = 4096;

template <class Write>
IoStatus begin_again_without_folder(Write&& write) {
  IoStatus written;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    written = write();
    if (written || written.error().code != ENOENT) {
      break;
    }
  }
  return written;
}

}  // namespace

// A folder that is a link would lead out of the cache. Who shares a folder but died before giving
// it its mode gives it now; the root and what is above it are not ours to change.
IoStatus Publisher::check_directory(const std::string& path, mode_t mode) {
  const auto status = file_system_.status(path);
  if (!status) {
    return tl::unexpected(io_failure("use", path, status.error()));
  }
  if (status->kind != FileStatus::Kind::kDirectory) {
    const bool link = status->kind == FileStatus::Kind::kSymlink;
    return tl::unexpected(io_failure("use", path, link ? ELOOP : ENOTDIR));
  }
  const bool ours = status->uid == uid_ && layer_.layout().contains(path + "/");
  if (modes_.exact && ours && (status->mode & mode) != mode) {
    const auto set = set_directory_mode(file_system_, path, mode);
    return set ? IoStatus() : tl::unexpected(io_failure("share", path, set.error()));
  }
  return {};
}

// What is missing above `path` gets the mode of the layer's folders.
IoStatus Publisher::make_directories(const std::string& path, mode_t mode) {
  auto checked = check_directory(path, mode);
  if (checked || checked.error().code != ENOENT || path == "/") {
    return checked;
  }
  if (auto parent = make_directories(parent_path(path), modes_.directory); !parent) {
    return parent;
  }
  const auto made = make_directory(file_system_, path, mode, modes_.exact);
  if (!made && made.error() == EEXIST) {
    return check_directory(path, mode);  // Another process made it.
  }
  return made ? IoStatus() : tl::unexpected(io_failure("create", path, made.error()));
}

IoStatus Publisher::prepare_root() {
  const std::string& root = layer_.layout().root();
  if (auto made = make_directories(root, modes_.directory); !made) {
    return made;
  }
  if (const Verdict verdict = layer_.trust(); !verdict.ok()) {
    return tl::unexpected(
        IoFailure{verdict.code, fmt::format("cannot use {}: {}", root, verdict.reason)});
  }
  return {};
}

IoStatus Publisher::make_folder(const std::string& path) {
  auto prepared = prepare_root();
  return prepared ? make_directories(path, modes_.directory) : prepared;
}

IoStatus Publisher::share(FileSystem::Handle handle, const std::string& path) {
  if (!modes_.exact) {
    return {};
  }
  const auto status = file_system_.status(handle);
  const bool lacks = status && status->uid == uid_ && (status->mode & modes_.file) != modes_.file;
  const auto set = lacks ? file_system_.set_mode(handle, modes_.file) : Io<void>();
  return set ? IoStatus() : tl::unexpected(io_failure("share", path, set.error()));
}

IoStatus Publisher::make_temporary_folder() {
  auto prepared = prepare_root();
  return prepared ? make_directories(layer_.layout().temporary(), modes_.work_directory) : prepared;
}

IoStatus Publisher::make_folders_of(const Entry& entry) {
  if (auto made = make_temporary_folder(); !made) {
    return made;
  }
  const Layout& layout = layer_.layout();
  return make_directories(layout.toolchain(entry.source.target, entry.toolchain.folder_key()),
                          modes_.directory);
}

IoStatus Publisher::commit(AtomicFile& file, const std::string& path) {
  auto committed = file.commit();
  if (committed || committed.error().code != EISDIR) {
    return committed;
  }
  const auto moved = move_to_quarantine(file_system_, layer_.layout(), modes_, path);
  return moved ? file.commit() : tl::unexpected(io_failure("move away", path, moved.error()));
}

IoStatus Publisher::write_once(const Entry& entry, std::string_view bytes) {
  if (auto made = make_folders_of(entry); !made) {
    return made;
  }
  const Layout& layout = layer_.layout();
  const std::string path =
      layout.entry({entry.source.target, entry.toolchain.folder_key(), entry.source.digest});
  AtomicFile file(file_system_, layout.temporary() + "/" + temporary_name(this_writer()), path);
  if (auto written = file.write(bytes, modes_.file, modes_.exact); !written) {
    return written;
  }
  return commit(file, path);
}

tl::expected<std::uint64_t, IoFailure> Publisher::write(const Entry& entry) {
  const std::string bytes = encode_entry(entry);
  auto written = begin_again_without_folder([&] { return write_once(entry, bytes); });
  if (!written) {
    return tl::unexpected(std::move(written.error()));
  }
  layer_.add_toolchain(entry.source.target, entry.toolchain.folder_key());
  return bytes.size();
}

IoStatus Publisher::try_write() {
  const std::string path = layer_.layout().temporary() + "/" + temporary_name(this_writer());
  return begin_again_without_folder([&] {
    auto made = make_temporary_folder();
    AtomicFile file(file_system_, path, path);  // Never committed, so that its end removes it.
    return made ? file.write(std::string(kTrialBytes, '\0'), modes_.file, modes_.exact) : made;
  });
}

IoStatus Publisher::sync_folder_of(const Entry& entry) {
  return sync_directory(
      file_system_, layer_.layout().toolchain(entry.source.target, entry.toolchain.folder_key()));
}

}  // namespace kiln::cache
