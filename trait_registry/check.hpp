#pragma once

/// \file
/// Checks a call against its op's description before anything is launched.

#include <span>
#include <string>

#include <kiln/op.hpp>
#include <kiln/tensor.hpp>

#include "base/result.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::registry {

/// Checks `args` against the op's contract: count, kinds, dtypes, shapes, devices, null pointers,
/// strides, alignment, 32-bit limits, overlap, and Op::contract. Sets the symbols and arguments of
/// `problem`, which was made with bound.names and whose target and PDL the caller has set. Sets
/// `device` to the CUDA device all tensors are declared on, or -1 when there is no tensor.
///
/// Overlap: two tensors of which one is written may not share a byte. Tensors without gaps are
/// always compared; with `exact_overlap`, strided ones too, exactly.
///
/// On failure (kInvalidArgument) the message says which op, which argument, what was expected and
/// what came; `problem` and `device` are then unspecified. Allocates nothing on success.
Status check_call(const BoundOp& bound, std::span<const Arg> args, bool exact_overlap,
                  Problem& problem, int& device);

/// The same for a call that is only planned: data pointers are not looked at and may be null, and
/// overlap does not count.
Status check_shapes(const BoundOp& bound, std::span<const Arg> args, Problem& problem, int& device);

/// Why the op's policy (not its contract) advises against this problem; empty when it does not.
std::string policy_reason(const BoundOp& bound, const Problem& problem);

}  // namespace kiln::registry
