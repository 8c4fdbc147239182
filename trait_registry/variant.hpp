#pragma once

/// \file
/// From an op and trait values to what a compiler is given.

#include <string>
#include <vector>

#include <kiln/engine.hpp>
#include <kiln/op.hpp>
#include <kiln/target.hpp>

#include "base/result.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::registry {

/// Nothing when the op serves `target`, else kUnsupportedTarget with the reason.
Status serves(const Op& op, const Target& target);

/// Op::choose, then PDL: on when the problem asks for it, the op has the trait and the target has
/// programmatic dependent launch (9.0 or newer). Allocates nothing.
Traits choose_traits(const BoundOp& bound, const Problem& problem);

/// Every kernel of the op for `target`: the product of the traits' domains, less what Op::exists
/// denies and PDL below 9.0, times the kernels. Two combinations that spell the same instantiation
/// count once. Empty when the op does not serve the target.
std::vector<Variant> enumerate(const BoundOp& bound, const Target& target);

/// The same variants in groups that compile as one program each: of one kernel source, at most
/// kMaxGroup, evenly filled. Depends on nothing but the op and the target, so that whoever compiles
/// a whole group gets the same image.
inline constexpr std::size_t kMaxGroup = 8;
std::vector<std::vector<Variant>> compile_groups(const BoundOp& bound, const Target& target);

/// Everything one compile depends on. Two equal units give equal code with equal compilers.
struct CompileUnit {
  std::string label;  ///< to_string(variant).
  Target target;
  SourceFile main;
  /// What `main` includes, transitively, and nothing else; sorted by name.
  std::vector<SourceFile> headers;
  std::string name_expression;  ///< "kiln::n128k512_gemm_bf16<4, true>".
  /// The op's own options, in its order. The compiler puts the target's and the fixed ones before.
  std::vector<std::string> options;
};

/// kUnsupportedTarget when the op does not serve the target, kInvalidArgument when a trait value
/// lies outside its domain or the combination does not exist.
Result<CompileUnit> compile_unit(const Variant& variant);

}  // namespace kiln::registry
