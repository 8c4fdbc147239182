#pragma once

/// \file
/// Checks each part of a description by itself.

#include <kiln/op.hpp>

#include "base/result.hpp"

namespace kiln::registry {

/// Checks the parts of a description that do not refer to each other: names, arguments, traits,
/// sources, options, and that what must be there is there. kInvalidArgument names the op and the
/// part.
Status validate(const Op& op);

}  // namespace kiln::registry
