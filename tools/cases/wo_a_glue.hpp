#pragma once

/// \file
/// Sizes of the wo_a ops and their reference.

#include <cstdint>
#include <string>
#include <vector>

#include "reference/wo_a.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools::cases {

/// Small by themselves, since a reference of the timed sizes takes long; timed as a model has them.
inline void set_wo_a_sizes(OpCase& out, std::initializer_list<std::int64_t> tokens) {
  out.rows = "m";
  out.dims = {{"g", 2}, {"r", 128}, {"d", 1024}};
  out.shapes = shapes_of_rows("x[{},2,4096]", "m", tokens, {{"r", 1024}, {"d", 4096}});
}

inline std::vector<reference::Bf16> wo_a_small_batch_of(const HostCall& call) {
  const reference::WoAShape shape = {call.dim("m"), call.dim("g"), call.dim("r"), call.dim("d")};
  return reference::wo_a_small_batch(call.data<reference::Bf16>("x"), shape.g * shape.d,
                                     call.data<reference::Bf16>("w"), shape);
}

}  // namespace kiln::tools::cases
