#pragma once

#include <memory>
#include <string>

#include "cache/store.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache::test {

/// A root and one read-only layer, seen through a disk that can fail. Neither is made.
struct Place {
  Place() {
    options = options_at(root(), log, disk);
    options.read_only_layers = {dir.str("layer")};
  }
  std::string root() const { return dir.str("root"); }
  std::string put(const Entry& entry, const std::string& directory) {
    write_bytes(entry_path(directory, entry), encode_entry(entry));
    return entry_path(directory, entry);
  }
  kiln::test::TempDir dir;
  LogLines log;
  std::shared_ptr<FaultyFileSystem> disk = std::make_shared<FaultyFileSystem>();
  StoreOptions options;
};

}  // namespace kiln::cache::test
