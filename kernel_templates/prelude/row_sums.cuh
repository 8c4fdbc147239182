// Several sums over one row at once, each in the order of row_sum.cuh.
// May live here: how the partial sums of several sums share shuffles, shared memory and the
// barrier. Not what is summed.
#pragma once

#include "prelude/row_sum.cuh"
#include "prelude/shared.cuh"
#include "prelude/types.cuh"
#include "prelude/warp.cuh"

namespace kiln {

// Two buffers that take turns, as in RowSumStorage.
template <int SUMS>
struct RowSumsStorage {
  alignas(16) float slots[2][SUMS][kSegments];
};

// Sums one row after the other, all threads of the CTA together.
template <int SUMS, int VECTORS>
class RowSums {
 public:
  // Called by all threads. `segments` is the number that the row has, `first_segment` that of the
  // thread's first chain; its chain j belongs to segment first_segment + j * segment_step.
  __device__ __forceinline__ RowSums(RowSumsStorage<SUMS>& storage, uint32 segments,
                                     uint32 first_segment, uint32 segment_step) {
    slots_ = shared_address(&storage.slots[0][0][0]);
    if (threadIdx.x < kSegments && threadIdx.x >= segments) {
#pragma unroll
      for (uint32 i = 0; i < 2 * SUMS; ++i)
        store_shared(slots_ + i * kSumBytes + segment_slot(threadIdx.x) * 4, 0.0f);
    }
    // After sum_over_lanes, lane i has the sum of value i / kLanesPerValue.
    const uint32 lane = threadIdx.x % kWarpLanes;
    const uint32 value = lane / kLanesPerValue;
    const uint32 segment = first_segment + value % VECTORS * segment_step;
    puts_ = segment < segments && value < SUMS * VECTORS && lane % kLanesPerValue == 0;
    put_ = slots_ + value / VECTORS * kSumBytes + segment_slot(segment) * 4;
    get_ = slots_ + (lane / kLanesPerSum < SUMS ? lane / kLanesPerSum : SUMS - 1) * kSumBytes;
  }

  // Called by all threads with their chains, chain j of sum i being chains[i * VECTORS + j]; 0
  // where the row has none. Lane i of a warp gets sum i / 8, or the last one, so that what follows
  // is worked out for all sums at once.
  __device__ __forceinline__ float operator()(const float (&chains)[SUMS * VECTORS]) {
    const uint32 lane = threadIdx.x % kWarpLanes;
    const uint32 offset = turn_ % 2 * SUMS * kSumBytes;
    float values[kValues];
#pragma unroll
    for (int i = 0; i < kValues; ++i)
      values[i] = i < SUMS * VECTORS ? chains[i < SUMS * VECTORS ? i : 0] : 0.0f;
    const float sum = sum_over_lanes(values, static_cast<int>(lane));
    if (puts_)
      store_shared(put_ + offset, sum);
    __syncthreads();
    ++turn_;
    return sum_segments(get_ + offset, lane);
  }

  // A value of the lanes that have sum SUM.
  template <int SUM>
  static __device__ __forceinline__ float of(float value) {
    return __shfl_sync(0xffffffffu, value, SUM * kLanesPerSum);
  }

 private:
  enum : int { kValues = round_up_to_power_of_two(SUMS * VECTORS) };
  enum : uint32 {
    kLanesPerValue = kWarpLanes / kValues,
    kLanesPerSum = 8,  // That sum_segments needs.
    kSumBytes = kSegments * 4,
  };
  static_assert(int{kValues} <= int{kWarpLanes});
  static_assert(SUMS * int{kLanesPerSum} <= int{kWarpLanes});

  uint32 slots_;
  uint32 put_;
  uint32 get_;
  uint32 turn_ = 0;
  bool puts_;
};

}  // namespace kiln
