// Logits masked past a row's length, and the maximum of each block of positions.
// May live here: this kernel alone.
//
// A CTA takes tiles of whole blocks of one row, about kTile positions or one block each. The
// maximum of a block is taken in shared memory over keys whose order is that of the values, so no
// bit depends on who comes first. Launch: block (kScoreThreads), grid (rows, CTAs of a row).
#pragma once

#include "attention/candidate_rows.cuh"
#include "attention/logit_group.cuh"
#include "prelude/division.cuh"
#include "prelude/float_order.cuh"
#include "prelude/global.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 { kScoreThreads = 256, kTile = 2048 };

// One tile of a row: blocks from `first_block` on, whose keys lie in shared memory.
struct ScoreTile {
  const float* logits;
  float* out;
  uint32* keys;
  uint32 length;
  uint32 first_block;
  Divisor block;

  __device__ __forceinline__ void take(uint32 number, uint32 key) const {
    atomicMax(keys + (number - first_block), key);
  }

  // Blocks of fewer positions than a warp takes at once: every thread by itself.
  template <uint32 W>
  __device__ __forceinline__ void take_apart(uint32 position, const LogitGroup<W>& group) const {
    uint32 rest;
    uint32 number = block.divide(position, rest);
    uint32 key = max_key(group.bits[0]);
#pragma unroll
    for (uint32 i = 1; i < W; ++i) {
      const uint32 next = max_key(group.bits[i]);
      if (++rest == block.value) {
        take(number++, key);
        rest = 0;
        key = next;
      } else {
        key = max(key, next);
      }
    }
    take(number, key);
  }

  // Longer blocks, of which the warp's positions, from `warp_position` on, touch two at most. Every
  // lane calls it.
  template <uint32 W>
  __device__ __forceinline__ void take_together(uint32 warp_position, uint32 position, bool active,
                                                const LogitGroup<W>& group) const {
    const uint32 number = block.divide(warp_position);
    const uint32 boundary = (number + 1) * block.value;
    uint32 lower = 0;
    uint32 upper = 0;
#pragma unroll
    for (uint32 i = 0; i < W; ++i) {
      const uint32 key = active ? max_key(group.bits[i]) : 0u;
      if (position + i < boundary) {
        lower = max(lower, key);
      } else {
        upper = max(upper, key);
      }
    }
    lower = __reduce_max_sync(0xffffffffu, lower);
    upper = __reduce_max_sync(0xffffffffu, upper);
    if (threadIdx.x % kWarpLanes == 0) {
      take(number, lower);
      if (upper != 0)
        take(number + 1, upper);
    }
  }

  // Positions [begin, end) in groups of W, COUNT of a thread under way at once. With W of 4, both
  // are multiples of 4 and rows start on 16-byte boundaries.
  template <uint32 W, uint32 COUNT>
  __device__ __forceinline__ void take_range(uint32 begin, uint32 end) const {
    constexpr uint32 kStep = kScoreThreads * W;
    const uint32 lane = threadIdx.x % kWarpLanes;
    for (uint32 base = begin + (threadIdx.x - lane) * W; base < end; base += COUNT * kStep) {
      LogitGroup<W> groups[COUNT] = {};
#pragma unroll
      for (uint32 j = 0; j < COUNT; ++j) {
        const uint32 position = base + j * kStep + lane * W;
        if (position < end && position < length)
          groups[j].load(logits + position);
      }
#pragma unroll
      for (uint32 j = 0; j < COUNT; ++j) {
        const uint32 warp_position = base + j * kStep;
        const uint32 position = warp_position + lane * W;
        if (warp_position >= end)
          break;
        const bool active = position < end;
        groups[j].mask(position, length);
        if (active)
          groups[j].store(out + position);
        if (block.value >= kWarpLanes * W) {
          take_together(warp_position, position, active, groups[j]);
        } else if (active) {
          take_apart(position, groups[j]);
        }
      }
    }
  }
};

// logits: rows of `width`, logits_row_stride elements apart. seq_lens: [rows], of int64 (wide_lens)
// or int32. out: [rows, width]. Scores, [rows, ceil(width / block_size)], begin scores_offset bytes
// behind `scores`.
template <bool PDL>
__global__ void __launch_bounds__(kScoreThreads)
    candidate_block_scores(const float* logits, int64 logits_row_stride, const void* seq_lens,
                           float* out, char* scores, int64 scores_offset, int block_size, int width,
                           int wide_lens) {
  __shared__ uint32 keys[kTile];
  launch_dependents<PDL>();
  const int64 row = blockIdx.x;
  const uint32 elements = static_cast<uint32>(width);
  const Divisor block(static_cast<uint32>(block_size));
  const uint32 blocks = block.divide_up(elements);
  const uint32 tile_blocks = block.value < kTile ? block.divide(kTile) : 1u;
  const uint32 step = gridDim.y * tile_blocks;
  const float* logits_row = logits + row * logits_row_stride;
  float* out_row = out + row * elements;
  float* scores_row = reinterpret_cast<float*>(scores + scores_offset) + row * blocks;
  for (uint32 i = threadIdx.x; i < tile_blocks; i += kScoreThreads)
    keys[i] = kNegativeInfinityKey;
  wait_for_prerequisites<PDL>();

  const uint32 length = visible_length(seq_lens, row, wide_lens != 0, elements);
  const uint32 last_visible = length != 0 ? block.divide(length - 1) : 0xffffffffu;
  const bool vectors = on_16_bytes(logits_row) && on_16_bytes(out_row);
  for (uint32 first = blockIdx.y * tile_blocks; first < blocks; first += step) {
    const uint32 begin = first * block.value;
    const uint32 end = min(begin + tile_blocks * block.value, elements);
    const ScoreTile tile{logits_row, out_row, keys, length, first, block};
    __syncthreads();
    if (vectors) {
      const uint32 from = min((begin + 3) / 4 * 4, end);
      const uint32 to = max(end / 4 * 4, from);
      tile.take_range<4, 2>(from, to);
      tile.take_range<1, 1>(begin, from);
      tile.take_range<1, 1>(to, end);
    } else {
      tile.take_range<1, 8>(begin, end);
    }
    __syncthreads();
    for (uint32 i = threadIdx.x; i < min(tile_blocks, blocks - first); i += kScoreThreads) {
      const uint32 bits = value_of(keys[i]);
      store_4(scores_row + (first + i),
              first + i == last_visible ? uint32{kPositiveInfinity} : bits);
      keys[i] = kNegativeInfinityKey;
    }
  }
}

}  // namespace kiln
