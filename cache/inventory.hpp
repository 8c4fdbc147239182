#pragma once

/// \file
/// What lies in a cache directory: listing and measuring it, for `kiln cache`.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cache/entry.hpp"
#include "cache/file_system.hpp"
#include "cache/layout.hpp"

namespace kiln::cache {

/// One file of the cache, as listings show it.
struct ListedEntry {
  std::string path;
  std::string layer;      ///< The directory it was found under.
  std::string target;     ///< Folder name.
  std::string toolchain;  ///< Folder name.
  std::string source;     ///< Source digest, 32 hex digits.
  std::uint64_t bytes = 0;
  std::string symbol;
  std::string label;
  bool ok = false;
  std::string problem;  ///< Empty when ok.
};

/// Sizes without reading any entry.
struct StoreUsage {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::uint64_t quarantined = 0;
  std::string problem{};  ///< What could not be looked into, so that the sizes are too small.
};

/// Reads an entry back and compares it with where it was found.
Result<Entry> decode_entry_at(const EntryAddress& address, EntryFile file);

/// What a listing says of the entry whose file this is; path and layer are the caller's to fill in.
ListedEntry describe_entry(const EntryAddress& address, Result<EntryFile> file);

/// The address of every entry below `layout`, none of them read. A folder that cannot be listed is
/// the failure.
Result<std::vector<EntryAddress>> entry_addresses(FileSystem& file_system, const Layout& layout);

/// Every entry below `layout`, sorted by path, read and checked.
std::vector<ListedEntry> list_entries(FileSystem& file_system, const Layout& layout);

StoreUsage measure(FileSystem& file_system, const Layout& layout);

}  // namespace kiln::cache
