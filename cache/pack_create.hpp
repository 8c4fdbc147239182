#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "cache/file_system.hpp"
#include "cache/signature.hpp"

namespace kiln::cache {

struct CreatedPack {
  std::uint64_t entries = 0;
  std::uint64_t entry_bytes = 0;  ///< Of the entries' own files together.
  std::uint64_t pack_bytes = 0;
};

/// Packs every entry of the cache directory `root` into `path`, which appears whole or not at all
/// and replaces what was there. Both paths are canonical. An entry or folder that cannot be read,
/// or an entry that is not sound, is a failure: a pack must not miss a kernel in silence. Needs
/// about as much memory as the pack has bytes.
Result<CreatedPack> create_pack(FileSystem& file_system, const std::string& root,
                                const std::string& path, const SigningKey* key = nullptr);

/// Writes a new key pair: the secret key to `path`, readable by its owner alone, and the public one
/// to `path`.pub. Existing files are never replaced.
Status write_key_pair(FileSystem& file_system, const std::string& path, const SigningKey& key);

}  // namespace kiln::cache
