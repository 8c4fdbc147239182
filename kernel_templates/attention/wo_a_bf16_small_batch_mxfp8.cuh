// wo_a_bf16_small_batch, stored as MXFP8 alone.
// May live here: this kernel alone.
//
// The two CTAs of a cluster share a group of 32 outputs and tell each other the largest magnitude
// that they have of each token. Launch: block (256), grid (g * r / 16), clusters of 2, no dynamic
// shared memory.
#pragma once

#include "attention/wo_a_tile.cuh"
#include "prelude/bf16.cuh"
#include "prelude/cluster.cuh"
#include "prelude/global.cuh"
#include "prelude/mxfp8.cuh"
#include "prelude/pdl.cuh"
#include "prelude/shared.cuh"
#include "prelude/types.cuh"

namespace kiln {

// q: [m, g * r]. scales: see mxfp8.cuh. r: a multiple of 32. All else as wo_a_bf16_small_batch.
template <int TOKENS, bool PDL>
__global__ void __launch_bounds__(kTileThreads, 1)
    wo_a_bf16_small_batch_mxfp8(const bf16* x, int64 x_row_stride, int64 x_group_stride,
                                const bf16* w, uint8* q, uint8* scales, int m, int g, int r, int d,
                                bool constants_early) {
  using Tile = WoATile<TOKENS>;
  constexpr uint32 kOutputs = kTileOutputs;
  constexpr uint32 kCtas = 32 / kOutputs;
  constexpr uint32 kBusy = kOutputs * TOKENS;  // threads that have an output
  static_assert(kBusy % kWarpLanes == 0 && kBusy <= kTileThreads && kCtas <= kOutputs);
  __shared__ typename Tile::Storage storage;
  __shared__ alignas(16) float most_of_cta[TOKENS][kCtas];  // bits of a bf16
  __shared__ alignas(8) uint32 barrier_storage[2];

  launch_dependents<PDL>();
  const uint32 output = threadIdx.x % kOutputs;
  const uint32 token = threadIdx.x / kOutputs % TOKENS;
  const uint32 rank = blockIdx.x % kCtas;
  const uint32 barrier = shared_address(barrier_storage);
  const uint32 to_cta = output % kCtas;
  const uint32 put = address_in_cta(shared_address(&most_of_cta[token][rank]), to_cta);
  const uint32 put_barrier = address_in_cta(barrier, to_cta);
  if (threadIdx.x == 0) {
    init_byte_barrier(barrier);
    arrive_expecting(barrier, kCtas * TOKENS * 4);
  }
  cluster_barrier();

  const WoA problem{x,
                    x_row_stride,
                    x_group_stride,
                    w,
                    static_cast<uint32>(m),
                    static_cast<uint32>(r),
                    static_cast<uint32>(d),
                    constants_early};
  const Mxfp8Matrix<false> matrix{q, scales, problem.m, static_cast<uint32>(g) * problem.r};
  const uint32 first = blockIdx.x * kOutputs;
  Tile::template compute<PDL>(problem, first, storage, [&] {
    matrix.zero_padding(blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
  });
  if (threadIdx.x >= kBusy)
    return;

  const uint32 value = to_bf16(Tile::total(storage, output, token)).bits;
  uint32 most = magnitudes(value);
#pragma unroll
  for (int mask = kOutputs / 2; mask > 0; mask /= 2)
    most = max_pair(most, __shfl_xor_sync(0xffffffffu, most, mask));
  if (output < kCtas)
    send(put, __uint_as_float(most), put_barrier);
  wait_for_bytes(barrier, 0);
  float most_of[kCtas];
  load_shared_2<0>(shared_address(most_of_cta[token]), most_of);
  most = max_pair(__float_as_uint(most_of[0]), __float_as_uint(most_of[1]));

  // Lanes 4i .. 4i + 3 hold four outputs of one token; lane 4i stores them.
  const uint32 scale = scale_byte(low_to_float(most));
  const uint32 pair = value | __shfl_xor_sync(0xffffffffu, value, 1) << 16;
  const uint32 half = quantize_pair(pair, inverse_scale(scale));
  const uint32 word = half | __shfl_xor_sync(0xffffffffu, half, 2) << 16;
  if (token >= problem.m)
    return;
  const Mxfp8Matrix<false>::Row row = matrix.row(token);
  if (output % 4 == 0)
    store_4(row.q + first + output, word);
  if (output == 0 && rank == 0) {
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
