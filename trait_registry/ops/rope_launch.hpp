#pragma once

/// \file
/// What q_rope_store and rope_inplace share: arguments, the trait of positions and the contract.

#include <string>

#include <kiln/op.hpp>

#include "trait_registry/ops/row_launch.hpp"

namespace kiln::registry::ops {

/// Heads of 512 elements; rows and heads may be strided.
inline ArgSpec rope_heads(const char* name, const char* summary, Access access) {
  ArgSpec arg;
  arg.name = name;
  arg.summary = summary;
  arg.dtypes = {DType::kBF16};
  arg.shape = {"rows", "heads", 512};
  arg.layout = Layout::kRowStrided;
  arg.access = access;
  return arg;
}

/// The look-up of a row depends on its position, which no kernel reads before the PDL wait; so
/// nothing is gained by promising that the table is constant.
inline ArgSpec rope_freqs() {
  ArgSpec arg;
  arg.name = "freqs";
  arg.summary = "Cosine and sine of the 32 angles of each position.";
  arg.dtypes = {DType::kComplex64};
  arg.shape = {"p", 32};
  return arg;
}

inline ArgSpec rope_positions() {
  ArgSpec arg;
  arg.name = "positions";
  arg.summary = "Row of freqs for each row; one outside takes the nearest.";
  arg.dtypes = {DType::kI64, DType::kI32};
  arg.shape = {"rows"};
  arg.alignment = 1;
  return arg;
}

inline TraitSpec rope_position_trait() {
  return TraitSpec::choice("POSITION", "element type of positions", {"kiln::int64", "int"});
}

inline void choose_rope_position(const Problem& problem, Traits& traits) {
  traits.set("POSITION", problem.dtype("positions") == DType::kI32 ? 1 : 0);
}

inline std::string rope_contract(const Problem& problem) {
  const bool no_table = problem.dim("rows") > 0 && problem.dim("p") == 0;
  return no_table ? std::string("freqs must have a row: p must be at least 1, found 0")
                  : wrong_rows(problem);
}

}  // namespace kiln::registry::ops
