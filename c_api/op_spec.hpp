#pragma once

/// \file
/// An op described in C, as the registry takes it.

#include <kiln/kiln.h>
#include <kiln/op.hpp>

namespace kiln::c_api {

/// Throws Error(kInvalidArgument) for what cannot be read; what the description says is checked
/// when it is registered.
Op to_op(const kiln_op_spec& spec);

}  // namespace kiln::c_api
