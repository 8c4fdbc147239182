#pragma once

#include <chrono>
#include <cstdint>

#include "cache/file_system.hpp"
#include "cache/layout.hpp"

namespace kiln::cache {

/// No writer needs as long for one entry.
inline constexpr std::chrono::hours kTemporaryLife{1};

/// Removes the temporary files of writers that died, and gives how many. Only plain files with a
/// temporary name count, and only those older than kTemporaryLife by the file system's own clock:
/// they are compared with a file written there now, since the clocks of hosts differ. Every failure
/// leaves something to the next collection and is none of the caller's.
std::uint64_t collect_temporaries(FileSystem& file_system, const Layout& layout);

}  // namespace kiln::cache
