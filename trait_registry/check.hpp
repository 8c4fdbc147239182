#pragma once

/// \file
/// Checks a call against its op's description before anything is launched.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kiln/op.hpp>
#include <kiln/tensor.hpp>

#include "base/result.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::registry {

/// What a call's check depends on beyond the kinds, dtypes, shapes, strides and devices of its
/// arguments: pointers and the values of scalars.
struct Recheck {
  struct Memory {
    std::int64_t span = 0;         ///< In bytes.
    std::uint64_t misaligned = 0;  ///< The bits that its address must not have.
    std::uint8_t arg = 0;
  };
  struct Pair {
    std::uint8_t first = 0;
    std::uint8_t second = 0;
  };
  struct Scalar {
    std::uint8_t arg = 0;
    ScalarType type = ScalarType::kI64;
  };
  std::vector<Memory> memory{};   ///< Of the tensors that have elements.
  std::vector<Pair> apart{};      ///< Of `memory`: those that may not share a byte.
  std::vector<Scalar> scalars{};  ///< Those that are present.
  /// The problem of Op::scalar_contract, where the op has one.
  std::optional<Problem> scalar_contract{};
};

/// Checks `args` against the op's contract: count, kinds, dtypes, shapes, devices, null pointers,
/// strides, alignment, 32-bit limits, overlap, and Op::contract. Sets the symbols and arguments of
/// `problem`, which was made with bound.names and whose target and PDL the caller has set. Sets
/// `device` to the CUDA device all tensors are declared on, or -1 when there is no tensor.
///
/// Overlap: two tensors of which one is written may not share a byte, nor may two elements of one
/// that is. Tensors without gaps are always compared; with `exact_overlap`, strided ones too,
/// exactly.
///
/// On failure (kInvalidArgument) the message says which op, which argument, what was expected and
/// what came; `problem` and `device` are then unspecified. Allocates nothing on success.
///
/// `recheck`, where it is not null, is set to what is left to be checked of calls like this one,
/// which does allocate.
Status check_call(const BoundOp& bound, std::span<const Arg> args, bool exact_overlap,
                  Problem& problem, int& device, Recheck* recheck = nullptr);

/// Whether a call passes check_call, without exact overlap, when one with arguments of the same
/// kinds, dtypes, shapes, strides and devices did. Allocates nothing when it does. Where it does
/// not, check_call says why.
bool passes(const BoundOp& bound, const Recheck& recheck, std::span<const Arg> args);

/// The same for a call that is only planned: data pointers are not looked at and may be null, and
/// overlap does not count.
Status check_shapes(const BoundOp& bound, std::span<const Arg> args, Problem& problem, int& device);

/// Why the op's policy (not its contract) advises against this problem; empty when it does not.
std::string policy_reason(const BoundOp& bound, const Problem& problem);

}  // namespace kiln::registry
