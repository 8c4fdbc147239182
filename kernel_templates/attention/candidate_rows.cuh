// Rows of logits that are cut into blocks of positions.
// May live here: what every kernel of the candidate ops reads of a row's length.
#pragma once

#include "prelude/index.cuh"
#include "prelude/types.cuh"

namespace kiln {

enum : uint32 { kLongestRow = 0x7fffffffu };

// A row's length, taken as 0 when it is negative and as `most` when it is longer.
__device__ __forceinline__ uint32 visible_length(const void* seq_lens, int64 row, bool wide,
                                                 uint32 most) {
  const int64 length = load_index(seq_lens, row, wide);
  return length < 0 ? 0u : length > static_cast<int64>(most) ? most : static_cast<uint32>(length);
}

}  // namespace kiln
