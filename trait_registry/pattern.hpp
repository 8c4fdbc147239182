#pragma once

/// \file
/// The instantiation pattern of a kernel: text with a {TRAIT} for each trait's value.

#include <string>
#include <string_view>
#include <vector>

#include <kiln/op.hpp>

#include "base/result.hpp"

namespace kiln::registry {

/// The traits a pattern names, in order. kInvalidArgument says which brace is wrong.
Result<std::vector<std::string>> traits_in_pattern(std::string_view pattern);

/// Whether a well-formed pattern names the trait.
bool pattern_uses(std::string_view pattern, std::string_view trait);

/// Puts the values in. The pattern must be well-formed and name known traits only.
std::string expand_pattern(std::string_view pattern, const std::vector<TraitSpec>& specs,
                           const Traits& traits);

}  // namespace kiln::registry
