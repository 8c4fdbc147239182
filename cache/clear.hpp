#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/file_system.hpp"
#include "cache/layout.hpp"

namespace kiln::cache {

struct ClearReport {
  std::uint64_t removed = 0;         ///< Entries.
  std::vector<std::string> foreign;  ///< What is not the cache's, and was left alone.
  std::string problem;               ///< The first thing that could not be done. Else empty.
};

/// Removes entries, unfinished files and the quarantine, and nothing else; goes on after a failure.
/// Locks stay: whoever holds one must find it where the others look. A publish that is under way
/// makes its folders again, so it does not fail of this.
ClearReport clear_root(FileSystem& file_system, const Layout& layout);

}  // namespace kiln::cache
