#pragma once

#include <string>

#include "cache/file_system.hpp"
#include "cache/layout.hpp"

namespace kiln::cache {

inline constexpr std::size_t kMaxQuarantined = 64;

/// Moves a bad file out of the way, kept for whoever wants to know what happened to it; the oldest
/// beyond kMaxQuarantined are removed. Gives the new path.
Io<std::string> move_to_quarantine(FileSystem& file_system, const Layout& layout,
                                   const std::string& path);

}  // namespace kiln::cache
