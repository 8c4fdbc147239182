#pragma once

#include <functional>
#include <string>

#include "cache/file_system.hpp"
#include "cache/layout.hpp"

namespace kiln::cache {

/// Where a walk found a file with an entry's place and name. It may be anything.
struct FoundEntry {
  EntryAddress address;
  std::string path;
};

/// What walk() calls. Functions other than `entry` may be empty.
struct Visitor {
  std::function<void(const FoundEntry&)> entry;
  std::function<void(const std::string&)> leave;      ///< Each folder, after its content.
  std::function<void(const std::string&, int)> fail;  ///< A folder that cannot be listed, and why.
  std::function<void(const std::string&)> foreign;    ///< What has no name of the grammar.
};

/// Goes through the entries below a root, in the order of their paths. Opens none of them.
void walk(FileSystem& file_system, const Layout& layout, const Visitor& visitor);

/// The names in one folder, sorted; none when it is not there, or failed.
std::vector<std::string> sorted_names(FileSystem& file_system, const std::string& folder,
                                      const Visitor& visitor);

}  // namespace kiln::cache
