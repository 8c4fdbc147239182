// wo_a_bf16_small_batch, stored as MXFP8 alone.
// May live here: this kernel alone.
//
// A warp has the 32 outputs of a tile at the end, of one token, which are a group. Launch: as
// wo_a_bf16_small_batch.
#pragma once

#include "attention/wo_a_tile.cuh"
#include "prelude/bf16.cuh"
#include "prelude/global.cuh"
#include "prelude/mxfp8.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"

namespace kiln {

// q: [m, g * r]. scales: see mxfp8.cuh. All else as wo_a_bf16_small_batch.
template <int TOKENS, bool PDL>
__global__ void __launch_bounds__(kTileThreads, PDL ? WoATile<TOKENS>::kResident : 1)
    wo_a_bf16_small_batch_mxfp8(const bf16* x, int64 x_row_stride, int64 x_group_stride,
                                const bf16* w, uint8* q, uint8* scales, int m, int g, int r, int d,
                                bool constants_early) {
  using Tile = WoATile<TOKENS>;
  extern __shared__ uint4 wo_a_storage[];
  __shared__ typename Tile::Storage storage;
  launch_dependents<PDL>();
  const WoA problem(x, x_row_stride, x_group_stride, w, m, r, d, constants_early);
  const Mxfp8Matrix<false> matrix{q, scales, problem.m, static_cast<uint32>(g) * problem.r};
  const uint32 token = Tile::own_token();
  const uint32 first = Tile::first_output();
  const uint32 lane = Tile::own_output();  // a group to a warp
  Mxfp8Matrix<false>::Row row = matrix.row(token);
  pin<PDL>(row.q);
  pin<PDL>(row.scales);
  auto* const warps = reinterpret_cast<typename Tile::Warp*>(wo_a_storage);
  const float total = Tile::template compute<PDL>(problem, warps, storage, [&] {
    matrix.zero_padding(blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
  });
  if (token >= problem.m)
    return;
  const uint32 value = to_bf16(total).bits;
  uint32 most = magnitudes(value);
#pragma unroll
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2)
    most = max_pair(most, __shfl_xor_sync(0xffffffffu, most, mask));
  const uint32 scale = scale_byte(low_to_float(most));
  // Lanes 4i .. 4i + 3 hold four outputs; lane 4i stores them.
  const uint32 pair = value | __shfl_xor_sync(0xffffffffu, value, 1) << 16;
  const uint32 half = quantize_pair(pair, inverse_scale(scale));
  const uint32 word = half | __shfl_xor_sync(0xffffffffu, half, 2) << 16;
  if (lane % 4 == 0)
    store_4(row.q + first + lane, word);
  if (lane == 0) {
    const uint32 groups = matrix.k / 32;
    const uint32 group = first / 32;
    uint8* const bytes = row.scales + (group / 4 * 512 + group % 4);
    store_1(bytes, scale);
    // The row's bytes past its last group, in the last block.
    for (uint32 i = 1; group + 1 == groups && (group + i) % 4 != 0; ++i)
      store_1(bytes + i, 0);
  }
}

}  // namespace kiln
