#pragma once

/// \file
/// Validates a description and looks its names up.

#include <kiln/op.hpp>

#include "base/result.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::registry {

/// Checks that the description agrees with itself and resolves its names to indices.
/// kInvalidArgument names the op, the part and what is wrong with it. `bound` must already be where
/// it will stay.
Status bind(Op op, bool builtin, BoundOp& bound);

}  // namespace kiln::registry
