#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cache/layout.hpp"
#include "cache/signature.hpp"

namespace kiln::cache {

/// Gives the file of an entry, byte for byte.
using ReadEntryFile = std::function<Result<std::string>(const EntryAddress&)>;

struct BuiltPack {
  std::string bytes;  ///< The whole file.
  std::uint64_t entries = 0;
  std::uint64_t entry_bytes = 0;  ///< Of the entries' own files together.
};

/// Builds a pack in memory. The addresses may come in any order, and more than once: what comes out
/// depends on the entries alone. Each is read once and must be a sound entry of its address; the
/// first that is not is the failure. Without a key the pack is unsigned.
Result<BuiltPack> build_pack(std::vector<EntryAddress> addresses, const ReadEntryFile& read,
                             const SigningKey* key = nullptr);

}  // namespace kiln::cache
