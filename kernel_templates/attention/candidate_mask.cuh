// A row's positions as one byte each: true in the blocks that are kept.
// May live here: how a CTA lays out its tile of a row, and the stores.
#pragma once

#include "prelude/division.cuh"
#include "prelude/global.cuh"
#include "prelude/types.cuh"

namespace kiln {

enum : uint32 { kMaskThreads = 512, kMaskTile = 16384 };

// The flags of a tile's blocks, 0 or 1, and room behind them.
using MaskFlags = uint8[kMaskTile + 1];

// Whole blocks, about kMaskTile positions of them or one.
__device__ __forceinline__ uint32 mask_tile_blocks(const Divisor& block) {
  return block.value < kMaskTile ? block.divide(kMaskTile) : 1u;
}

__device__ __forceinline__ void clear_flags(MaskFlags& flags, uint32 count) {
  for (uint32 i = threadIdx.x; i < count; i += kMaskThreads)
    flags[i] = 0;
}

// Stores `count` positions from `first` on, which begins a block, the first of the flags.
__device__ __forceinline__ void store_flags(uint8* first, uint32 count, const Divisor& block,
                                            const MaskFlags& flags) {
  const uint32 skipped = static_cast<uint32>(reinterpret_cast<unsigned long long>(first) % 16);
  const bool quads = skipped == 0 && block.value % 4 == 0;
  for (uint32 chunk = threadIdx.x; chunk * 16 < count + skipped; chunk += kMaskThreads) {
    const uint32 at = chunk * 16 - skipped;  // Wraps around in front of the first position.
    uint32 rest;
    const uint32 number = block.divide(chunk == 0 ? 0u : at, rest);
    const uint8* next = flags + number;
    uint32 flag = *next;
    uint32 words[4] = {};
    if (quads && at + 16 <= count) {
#pragma unroll
      for (uint32 i = 0; i < 4; ++i) {
        words[i] = flag * 0x01010101u;
        rest += 4;
        if (rest == block.value) {
          rest = 0;
          flag = *++next;
        }
      }
      store_16<0>(first + at, words);
      continue;
    }
#pragma unroll
    for (uint32 i = 0; i < 16; ++i) {
      if (at + i >= count)
        continue;
      words[i / 4] |= flag << (i % 4 * 8);
      if (++rest == block.value) {
        rest = 0;
        flag = *++next;
      }
    }
    if (at < count && at + 16 <= count) {
      store_16<0>(first + at, words);
    } else {
#pragma unroll
      for (uint32 i = 0; i < 16; ++i) {
        if (at + i < count)
          store_1(first + (at + i), words[i / 4] >> (i % 4 * 8));
      }
    }
  }
}

}  // namespace kiln
