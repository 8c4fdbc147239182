#pragma once

#include <string>
#include <string_view>

#include "cache/file_system.hpp"
#include "cache/layout.hpp"
#include "cache/modes.hpp"

namespace kiln::cache {

inline constexpr std::size_t kMaxQuarantined = 64;

/// Moves a bad file, or a folder in a file's place, out of the way, kept for whoever wants to know
/// what happened to it; the oldest beyond kMaxQuarantined are removed, but no folder that holds
/// something. Gives the new path.
Io<std::string> move_to_quarantine(FileSystem& file_system, const Layout& layout,
                                   const Modes& modes, const std::string& path);

/// Whether move_to_quarantine() gives such names.
bool is_quarantine_name(std::string_view name);

}  // namespace kiln::cache
