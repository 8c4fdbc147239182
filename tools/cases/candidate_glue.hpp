#pragma once

/// \file
/// Inputs of the candidate ops, and their references on a call.

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "reference/candidates.hpp"
#include "tools/cases/engram_glue.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools::cases {

inline constexpr std::int64_t kBlockSize = 8;
inline constexpr std::int64_t kTopkBlocks = 2048;

/// Lengths of nearly whole rows, so that what is timed reads them.
inline void set_seq_lens(OpCase& out) {
  constexpr std::int64_t kLongest = 131'072;  // Where no row has a width.
  out.rows = "rows";
  out.scalars = {{"block_size", static_cast<double>(kBlockSize)},
                 {"topk_blocks", static_cast<double>(kTopkBlocks)}};
  out.fills["seq_lens"] = [](HostTensor& tensor, std::mt19937_64& generator, const HostCall& call) {
    const std::int64_t most = call.dims().contains("width") ? call.dim("width") : kLongest;
    fill_integers(tensor, generator,
                  [=](std::mt19937_64& random) { return uniform(random, most - most / 32, most); });
  };
}

template <class T>
std::vector<T> values_of(const HostCall& call, const char* arg) {
  const auto values = call.tensor(arg).as<T>();
  return {values.begin(), values.end()};
}

inline reference::BlockShape block_shape(const HostCall& call) {
  return {call.dim("width"), static_cast<std::int64_t>(call.scalar("block_size"))};
}

inline reference::BlockScores scores_of(const HostCall& call) {
  return reference::candidate_block_scores(values_of<float>(call, "logits"),
                                           integers(call.tensor("seq_lens")), block_shape(call));
}

}  // namespace kiln::tools::cases
