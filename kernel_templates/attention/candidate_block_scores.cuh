// Logits masked past a row's length, and the maximum of each block of positions.
// May live here: this kernel alone.
//
// A CTA takes tiles of whole blocks of one row, about kTile positions or one block each. Blocks of
// 4 to 128 positions, a power of two, are those of neighbouring lanes. The maximum of any other
// block is taken in shared memory over keys whose order is that of the values, so no bit depends on
// who comes first. Launch: block (kScoreThreads), grid (rows, CTAs of a row).
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

enum : uint32 { kScoreThreads = 256, kTile = 4 * kScoreThreads };

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

// A row, and which of its tiles a CTA takes.
struct ScoreRow {
  const float* logits;
  float* out;
  float* scores;
  const char* length_at;
  Divisor block;
  uint32 elements;
  uint32 blocks;
  uint32 tile_blocks;
  uint32 wide_lens;
  uint32 step;   // From a tile to the CTA's next.
  uint32 lanes;  // Of a block, where the lanes of a warp have whole blocks and vectors; else 0.

  template <bool PDL>
  __device__ __forceinline__ void pin_all() {
    pin<PDL>(logits);
    pin<PDL>(out);
    pin<PDL>(scores);
    pin<PDL>(length_at);
    pin<PDL>(block.value);
    pin<PDL>(block.reciprocal);
    pin<PDL>(elements);
    pin<PDL>(blocks);
    pin<PDL>(tile_blocks);
    pin<PDL>(wide_lens);
    pin<PDL>(step);
    pin<PDL>(lanes);
  }

  __device__ __forceinline__ void store_score(uint32 number, uint32 key,
                                              uint32 last_visible) const {
    const uint32 bits = value_of(key);
    store_4(scores + number, number == last_visible ? uint32{kPositiveInfinity} : bits);
  }

  // One vector of each thread, and blocks of whole lanes.
  __device__ __forceinline__ void take_lanes(uint32 tile, uint32 length,
                                             uint32 last_visible) const {
    const uint32 position = tile * kTile + threadIdx.x * 4;
    LogitGroup<4> group = {};
    const bool exists = position < elements;
    if (exists && position < length)
      group.load(logits + position);
    group.mask(position, length);
    if (exists)
      group.store(out + position);
    uint32 key = max(max(max_key(group.bits[0]), max_key(group.bits[1])),
                     max(max_key(group.bits[2]), max_key(group.bits[3])));
    for (uint32 mask = 1; mask < lanes; mask *= 2)
      key = max(key, __shfl_xor_sync(0xffffffffu, key, mask));
    if (exists && (threadIdx.x & (lanes - 1)) == 0)
      store_score(block.divide(position), key, last_visible);
  }

  // Any blocks; `keys` are those of nothing before and after.
  __device__ __forceinline__ void take_tile(uint32 first, uint32 length, uint32 last_visible,
                                            uint32* keys) const {
    const uint32 begin = first * block.value;
    const uint32 end = min(begin + tile_blocks * block.value, elements);
    const ScoreTile tile{logits, out, keys, length, first, block};
    __syncthreads();
    if (on_16_bytes(logits) && on_16_bytes(out)) {
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
      store_score(first + i, keys[i], last_visible);
      keys[i] = kNegativeInfinityKey;
    }
  }
};

// The lanes of a block if it is that of neighbouring lanes, which have vectors; else 0.
__device__ __forceinline__ uint32 lanes_of_block(const float* logits, const float* out,
                                                 uint32 elements, uint32 block) {
  const bool power_of_two = (block & (block - 1)) == 0;
  const bool fits = block >= 4 && block <= 4 * kWarpLanes && elements % 4 == 0;
  return power_of_two && fits && on_16_bytes(logits) && on_16_bytes(out) ? block / 4 : 0;
}

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
  const float* const logits_row = logits + row * logits_row_stride;
  float* const out_row = out + row * elements;
  ScoreRow own{logits_row,
               out_row,
               reinterpret_cast<float*>(scores + scores_offset) + row * blocks,
               static_cast<const char*>(seq_lens) + row * (wide_lens != 0 ? 8 : 4),
               block,
               elements,
               blocks,
               block.value < kTile ? block.divide(kTile) : 1u,
               static_cast<uint32>(wide_lens),
               gridDim.y,
               lanes_of_block(logits_row, out_row, elements, block.value)};
  if (own.lanes == 0) {
    for (uint32 i = threadIdx.x; i < own.tile_blocks; i += kScoreThreads)
      keys[i] = kNegativeInfinityKey;
  }
  own.pin_all<PDL>();
  wait_for_prerequisites<PDL>();

  const uint32 length = visible_length(own.length_at, 0, own.wide_lens != 0, own.elements);
  const uint32 last_visible = length != 0 ? own.block.divide(length - 1) : 0xffffffffu;
  for (uint32 tile = blockIdx.y; tile * own.tile_blocks < own.blocks; tile += own.step) {
    if (own.lanes != 0) {
      own.take_lanes(tile, length, last_visible);
    } else {
      own.take_tile(tile * own.tile_blocks, length, last_visible, keys);
    }
  }
}

}  // namespace kiln
