#include "cache/pack_create.hpp"

#include <cerrno>

#include <fmt/format.h>

#include "cache/atomic_file.hpp"
#include "cache/directory_layer.hpp"
#include "cache/inventory.hpp"
#include "cache/pack_writer.hpp"
#include "cache/writer.hpp"

namespace kiln::cache {
namespace {

constexpr mode_t kPackMode = 0644;  // Less the umask.
constexpr mode_t kSecretMode = 0600;
constexpr mode_t kPublicMode = 0644;

Status to_status(const IoStatus& status) {
  return status ? Status() : fail(ErrorCode::kIo, status.error().what);
}

Status publish(FileSystem& file_system, const std::string& path, const std::string& bytes) {
  const std::string folder = parent_path(path);
  AtomicFile file(file_system, (folder == "/" ? "" : folder) + "/" + temporary_name(this_writer()),
                  path);
  IoStatus done = file.write(bytes, kPackMode);
  if (done) {
    done = file.commit();
  }
  if (done) {
    done = sync_directory(file_system, folder);
  }
  return to_status(done);
}

// Fails where the name is taken; leaves nothing behind when it fails.
Status write_new(FileSystem& file_system, const std::string& path, const std::string& bytes,
                 mode_t mode) {
  const auto handle = file_system.create(path, mode);
  if (!handle) {
    return to_status(tl::unexpected(io_failure("create", path, handle.error())));
  }
  OpenFile file(file_system, *handle);
  const auto count = file_system.write(file.get(), bytes);
  int error = count ? (*count == bytes.size() ? 0 : ENOSPC) : count.error();
  if (const auto closed = file.close(); error == 0 && !closed) {
    error = closed.error();
  }
  if (error != 0) {
    static_cast<void>(file_system.remove(path));
    return to_status(tl::unexpected(io_failure("write", path, error)));
  }
  return {};
}

}  // namespace

Result<CreatedPack> create_pack(FileSystem& file_system, const std::string& root,
                                const std::string& path, const SigningKey* key) {
  // The rename would put a file in the place of a device, a pipe or a link.
  if (const auto there = file_system.status(path);
      there && there->kind != FileStatus::Kind::kFile) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is there already and is not a plain file; name a file", path));
  }
  DirectoryLayer layer(file_system, root, TrustRole::kNamedRoot, TrustPolicy::of_process());
  auto addresses = entry_addresses(file_system, layer.layout());
  if (!addresses) {
    return tl::unexpected(std::move(addresses.error()));
  }
  if (addresses->empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the cache {} holds no entries to pack", root));
  }
  const auto read = [&](const EntryAddress& address) -> Result<std::string> {
    auto file = layer.read(address);
    return file ? Result<std::string>(std::move(file->bytes).joined())
                : fail(ErrorCode::kIo, file.error().reason);
  };
  const auto pack = build_pack(std::move(*addresses), read, key);
  if (!pack) {
    return tl::unexpected(pack.error());
  }
  if (auto published = publish(file_system, path, pack->bytes); !published) {
    return tl::unexpected(std::move(published.error()));
  }
  return CreatedPack{pack->entries, pack->entry_bytes, pack->bytes.size()};
}

Status write_key_pair(FileSystem& file_system, const std::string& path, const SigningKey& key) {
  Status written = write_new(file_system, path, key.format() + "\n", kSecretMode);
  if (!written) {
    return written;
  }
  written = write_new(file_system, path + ".pub", format_public_key(key.public_key()) + "\n",
                      kPublicMode);
  if (!written) {
    static_cast<void>(file_system.remove(path));
  }
  return written;
}

}  // namespace kiln::cache
