// The last 64 elements of heads, rotated where they are.
// May live here: this kernel alone.
//
// 8 threads rotate a head, a vector of 8 elements each. Launch: block (a multiple of 32, at most
// 128), grid (rows, ceil(heads / (threads / 8))).
#pragma once

#include "attention/rope.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector8.cuh"

namespace kiln {

// x: [rows, heads, 512], rows and heads strided on 16-byte boundaries. freqs: [table_rows, 32]
// pairs of cosine and sine. positions: [rows].
template <typename POSITION, bool PDL>
__global__ void __launch_bounds__(128, 8)
    rope_inplace(bf16* x, int64 x_row_stride, int64 x_head_stride, const float* freqs,
                 const POSITION* positions, int heads, int table_rows) {
  launch_dependents<PDL>();
  const uint32 row = blockIdx.x;
  const uint32 vector = threadIdx.x % kRopeVectors;
  const uint32 head = (blockIdx.y * blockDim.x + threadIdx.x) / kRopeVectors;
  bf16* place = x + (row * x_row_stride + head * x_head_stride + (kPassedVectors + vector) * 8);
  const POSITION* position_address = positions + row;
  pin<PDL>(place);
  pin<PDL>(position_address);
  wait_for_prerequisites<PDL>();
  if (head >= static_cast<uint32>(heads))
    return;

  const int64 position = load_position(position_address);
  Vector8<bf16> values;
  Vector8<float> angles;
  load(place, values);
  load_angles(freqs, static_cast<uint32>(table_rows), position, vector, angles);
  rotate(values, angles);
  store(place, values);
}

}  // namespace kiln
