#pragma once

/// \file
/// Paths as they are typed. The library finds nothing through the working directory; who types a
/// relative path means the folder that he is in. All throw Error, in words of Kiln's own.

#include <string>

#include "cache/file_system.hpp"

namespace kiln::tools {

/// An empty path is refused: it is most likely an unset shell variable.
std::string absolute_path(const std::string& path);

/// The same with links resolved. What does not exist yet has a path, too.
std::string canonical_path(cache::FileSystem& disk, const std::string& path);

/// Refuses what is no directory. `what` says whose path it is: "there is no cache directory".
void require_directory(const std::string& path, const std::string& what);

/// Refuses what is not there.
void require_existence(const std::string& path, const std::string& what);

/// Refuses a cache that --cache (`named`) or else KILN_CACHE_DIR names and that is not there:
/// asking about it is a mistake that must not pass for an empty cache, on whose answer an image
/// build may rely.
void require_named_cache(const std::string& named);

}  // namespace kiln::tools
