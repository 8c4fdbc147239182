#pragma once

#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace kiln::cache {

/// Where a pack's writer cuts an entry's file, so that what entries have in common is stored once:
/// the image is a piece, and so is each long value in the key material, such as the text of a
/// template that all variants of a kernel share. The pieces in their order are the file; a reader
/// only joins them and need not know this rule. Fails for what is not an entry.
Result<std::vector<std::string_view>> cut_entry(std::string_view file);

/// Values shorter than this would cost more to keep apart than to repeat.
inline constexpr std::size_t kLeastPieceBytes = 512;

}  // namespace kiln::cache
