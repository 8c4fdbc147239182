// Rows of bf16 as MXFP8.
// May live here: this kernel alone.
//
// A thread takes one vector of 8 elements of each of ROWS rows. Launch: block (threads, a multiple
// of 32), grid (ceil(ceil32(k / 8) / threads), any, 1 or more). Along z, CTAs from 1 on zero the
// padding of the scales; if there are none, the others do it on the way.
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/mxfp8.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector8.cuh"

namespace kiln {

// x: [m, k], rows x_row_stride elements apart, each aligned to 16 bytes; k a multiple of 32. q:
// [m, k]. scales: see mxfp8.cuh.
template <int ROWS, bool PDL>
__global__ void __launch_bounds__(256, 1)
    mxfp8_quantize(const bf16* x, int64 x_row_stride, uint8* q, uint8* scales, int m, int k) {
  launch_dependents<PDL>();
  const Mxfp8Matrix<true> matrix{q, scales, static_cast<uint32>(m), static_cast<uint32>(k)};
  const uint32 vector = blockIdx.x * blockDim.x + threadIdx.x;
  const bool inside = vector < matrix.vectors();
  const uint32 step = gridDim.y * ROWS;
  const uint32 plane = gridDim.x * gridDim.y * blockDim.x;
  const uint32 thread = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
  wait_for_prerequisites<PDL>();
  if (blockIdx.z > 0) {
    matrix.zero_padding((blockIdx.z - 1) * plane + thread, (gridDim.z - 1) * plane);
    return;
  }

  bool zeroed = gridDim.z > 1;
  for (uint32 first = blockIdx.y * ROWS; first < matrix.m; first += step) {
    Vector8<bf16> values[ROWS] = {};
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      if (inside && first + r < matrix.m)
        load(x + ((first + r) * x_row_stride + vector * 8), values[r]);
    }
    if (!zeroed) {
      matrix.zero_padding(thread, plane);
      zeroed = true;
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const QuantizedVector quantized = quantize(values[r]);
      if (first + r < matrix.m)
        matrix.store(matrix.row(first + r), vector, quantized);
    }
  }
}

}  // namespace kiln
