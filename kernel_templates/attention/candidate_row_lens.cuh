// How many blocks a row has, and how many positions lie in those that can be selected.
// May live here: this kernel alone.
//
// Launch: a thread for each row, block (threads), grid (ceil(rows / threads)).
#pragma once

#include "attention/candidate_rows.cuh"
#include "prelude/division.cuh"
#include "prelude/global.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"

namespace kiln {

// seq_lens: [rows], of int64 (wide_lens) or int32. nblocks, valid: [rows].
template <bool PDL>
__global__ void __launch_bounds__(256)
    candidate_row_lens(const void* seq_lens, int* nblocks, int* valid, int topk_blocks,
                       int block_size, int rows, int wide_lens) {
  launch_dependents<PDL>();
  const uint32 row = blockIdx.x * blockDim.x + threadIdx.x;
  Divisor block(static_cast<uint32>(block_size));
  pin<PDL>(block.reciprocal);
  wait_for_prerequisites<PDL>();
  if (row >= static_cast<uint32>(rows))
    return;

  const uint32 length = visible_length(seq_lens, row, wide_lens != 0, kLongestRow);
  uint32 blocks = 0;
  uint32 positions = 0;
  if (length != 0) {
    uint32 in_last;
    const uint32 last = block.divide(length - 1, in_last);
    const uint32 selected = static_cast<uint32>(topk_blocks) - 1;  // Before the last of them.
    blocks = last + 1;
    positions = block.value * (last < selected ? last : selected) + in_last + 1;
  }
  store_4(nblocks + row, blocks);
  store_4(valid + row, positions);
}

}  // namespace kiln
