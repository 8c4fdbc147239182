// Sums across the lanes of one warp.
// May live here: warp-wide reductions whose order of additions is fixed and stated. No shared
// memory.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

enum : int { kWarpLanes = 32 };

__device__ constexpr int round_up_to_power_of_two(int value) {
  int power = 1;
  while (power < value)
    power *= 2;
  return power;
}

// Sums COUNT values (a power of two, at most 32) over the 32 lanes at once. On return lane i holds
// the sum of value i / (32 / COUNT). Each sum is added up exactly as by xor-shuffles with masks 16,
// 8, 4, 2, 1 on that value alone: the two operands of every addition are the same, only the lane in
// which it happens differs. While a lane still holds several values, the two partners of a step
// split them between themselves instead of both adding all, so that the whole takes about COUNT + 4
// shuffles instead of 5 * COUNT.
template <int COUNT, int MASK = kWarpLanes / 2>
__device__ __forceinline__ float sum_over_lanes(const float (&values)[COUNT], int lane) {
  static_assert(COUNT >= 1 && COUNT <= kWarpLanes && (COUNT & (COUNT - 1)) == 0);
  if constexpr (COUNT > 1) {
    constexpr int kHalf = COUNT / 2;
    const bool keeps_upper = (lane & MASK) != 0;
    float kept[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float mine = keeps_upper ? values[i + kHalf] : values[i];
      const float sent = keeps_upper ? values[i] : values[i + kHalf];
      kept[i] = __fadd_rn(mine, __shfl_xor_sync(0xffffffffu, sent, MASK));
    }
    if constexpr (MASK > 1) {
      return sum_over_lanes<kHalf, MASK / 2>(kept, lane);
    } else {
      return kept[0];
    }
  } else {
    const float sum = __fadd_rn(values[0], __shfl_xor_sync(0xffffffffu, values[0], MASK));
    if constexpr (MASK > 1) {
      const float rest[1] = {sum};
      return sum_over_lanes<1, MASK / 2>(rest, lane);
    } else {
      return sum;
    }
  }
}

}  // namespace kiln
