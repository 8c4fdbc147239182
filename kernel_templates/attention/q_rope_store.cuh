// Heads of queries, copied to another place with their last 64 elements rotated.
// May live here: this kernel alone.
//
// A thread takes the same vector of 8 elements of HEADS heads of one row, so that the angles that
// it needs, if any, are loaded once. Launch: block (64, groups of heads, at most 4), grid (rows,
// ceil(heads / (groups * HEADS))).
#pragma once

#include "attention/rope.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector8.cuh"

namespace kiln {

// q, out: [rows, heads, 512], rows and heads strided on 16-byte boundaries. freqs: [table_rows, 32]
// pairs of cosine and sine. positions: [rows].
template <typename POSITION, int HEADS, bool PDL>
__global__ void __launch_bounds__(256, 4)
    q_rope_store(const bf16* q, int64 q_row_stride, int64 q_head_stride, bf16* out,
                 int64 out_row_stride, int64 out_head_stride, const float* freqs,
                 const POSITION* positions, int heads, int table_rows) {
  launch_dependents<PDL>();
  const uint32 row = blockIdx.x;
  const uint32 vector = threadIdx.x;
  const bool rotates = vector >= kPassedVectors;
  const uint32 groups = blockDim.y;
  const uint32 first_head = blockIdx.y * (groups * HEADS) + threadIdx.y;
  const bf16* from = q + (row * q_row_stride + first_head * q_head_stride + vector * 8);
  bf16* to = out + (row * out_row_stride + first_head * out_head_stride + vector * 8);
  const POSITION* position_address = positions + row;
  pin<PDL>(from);
  pin<PDL>(to);
  pin<PDL>(position_address);
  wait_for_prerequisites<PDL>();

  int64 position = 0;
  if (rotates)
    position = load_position(position_address);
  Vector8<bf16> values[HEADS] = {};
#pragma unroll
  for (int j = 0; j < HEADS; ++j) {
    if (first_head + j * groups < static_cast<uint32>(heads))
      load(from + j * groups * q_head_stride, values[j]);
  }
  if (rotates) {
    Vector8<float> angles;
    load_angles(freqs, static_cast<uint32>(table_rows), position, vector - kPassedVectors, angles);
#pragma unroll
    for (int j = 0; j < HEADS; ++j)
      rotate(values[j], angles);
  }
#pragma unroll
  for (int j = 0; j < HEADS; ++j) {
    if (first_head + j * groups < static_cast<uint32>(heads))
      store(to + j * groups * out_head_stride, values[j]);
  }
}

}  // namespace kiln
