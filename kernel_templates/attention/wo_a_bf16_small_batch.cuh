// y[m, g, r] = sum over d of x[m, g, d] * w[g, r, d], for at most TOKENS tokens m.
// May live here: this kernel alone.
//
// Launch: block (256), grid (g * r / 16), no dynamic shared memory.
#pragma once

#include "attention/wo_a_tile.cuh"
#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"

namespace kiln {

// x: [m, g, d], strided in m and g on 16-byte boundaries. w: [g, r, d], constant. y: [m, g * r]. r:
// a multiple of 16, d of 256. constants_early: false moves the reads of w behind the PDL wait.
template <int TOKENS, bool PDL>
__global__ void __launch_bounds__(kTileThreads, 1)
    wo_a_bf16_small_batch(const bf16* x, int64 x_row_stride, int64 x_group_stride, const bf16* w,
                          bf16* y, int m, int g, int r, int d, bool constants_early) {
  using Tile = WoATile<TOKENS>;
  __shared__ typename Tile::Storage storage;
  launch_dependents<PDL>();
  const WoA problem{x,
                    x_row_stride,
                    x_group_stride,
                    w,
                    static_cast<uint32>(m),
                    static_cast<uint32>(r),
                    static_cast<uint32>(d),
                    constants_early};
  const uint32 first = blockIdx.x * kTileOutputs;
  Tile::template compute<PDL>(problem, first, storage, [] {});

  const uint32 output = threadIdx.x % kTileOutputs;
  const uint32 token = threadIdx.x / kTileOutputs;
  if (token < problem.m) {
    const int64 width = static_cast<int64>(g) * r;
    store(y + (token * width + first + output), to_bf16(Tile::total(storage, output, token)));
  }
}

}  // namespace kiln
