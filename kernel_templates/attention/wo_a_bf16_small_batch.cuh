// y[m, g, r] = sum over d of x[m, g, d] * w[g, r, d], for at most TOKENS tokens m.
// May live here: this kernel alone.
//
// Launch: block (256), grid (g * r / 32 * 2), clusters of 2, dynamic shared memory for 8 Warps.
#pragma once

#include "attention/wo_a_tile.cuh"
#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"

namespace kiln {

// x: [m, g, d], strided in m and g on 16-byte boundaries. w: [g, r, d], constant. y: [m, g * r]. r:
// a multiple of 32, d of 256. constants_early: false moves the reads of w behind the PDL wait.
template <int TOKENS, bool PDL>
__global__ void __launch_bounds__(kTileThreads, PDL ? WoATile<TOKENS>::kResident : 1)
    wo_a_bf16_small_batch(const bf16* x, int64 x_row_stride, int64 x_group_stride, const bf16* w,
                          bf16* y, int m, int g, int r, int d, bool constants_early) {
  using Tile = WoATile<TOKENS>;
  extern __shared__ uint4 wo_a_storage[];
  __shared__ typename Tile::Storage storage;
  launch_dependents<PDL>();
  const WoA problem(x, x_row_stride, x_group_stride, w, m, r, d, constants_early);
  auto* const warps = reinterpret_cast<typename Tile::Warp*>(wo_a_storage);
  const uint32 token = Tile::own_token();
  const int64 width = static_cast<int64>(g) * r;
  bf16* target = y + (token * width + Tile::first_output() + Tile::own_output());
  pin<PDL>(target);
  const float total = Tile::template compute<PDL>(problem, warps, storage, [] {});
  if (token < problem.m)
    store(target, to_bf16(total));
}

}  // namespace kiln
