#pragma once

#include <algorithm>
#include <cstddef>

#include "tests/gpu/support/cuda.hpp"

namespace kiln::gpu {

/// Fills `to` with rows of `row_bytes` bytes, row i being row (first + i) of the block, which
/// repeats. Done when it returns.
inline void repeat_rows(const Buffer& block, std::size_t row_bytes, std::size_t first,
                        const Buffer& to, std::size_t rows) {
  const std::size_t block_rows = block.bytes() / row_bytes;
  for (std::size_t row = 0; row < rows;) {
    const std::size_t from = (first + row) % block_rows;
    const std::size_t count = std::min(rows - row, block_rows - from);
    KILN_CU(cuMemcpyDtoD, to.address() + row * row_bytes, block.address() + from * row_bytes,
            count * row_bytes);
    row += count;
  }
  KILN_CU(cuCtxSynchronize);
}

}  // namespace kiln::gpu
