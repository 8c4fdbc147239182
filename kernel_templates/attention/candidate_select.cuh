// The k greatest of a row's scores: NaN above +inf, ties toward the lower index.
// May live here: the selection by digits of keys that the CTAs of a cluster make together. No
// kernel, and nothing of where the keys lie.
//
// Digit by digit, eight bits from the highest on, every CTA counts the digits of those of its keys
// whose digits before are the threshold's, and sends the counts to the others; from all of them,
// each finds the digit of the k-th greatest key. So the CTAs meet once for each digit, and in most
// rows two or three digits tell which keys are taken: all of those that begin with them are. The
// counts of the CTAs before it also tell a CTA how many keys they take. So the result depends on
// the keys alone. Launch: block (kSelectThreads), grid (rows * CTAs of a row), cluster (CTAs of a
// row, kSelectCtas at most).
#pragma once

#include "prelude/cluster.cuh"
#include "prelude/shared.cuh"
#include "prelude/types.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 {
  kSelectThreads = 1024,
  kSelectCtas = 8,
  kSelectDigits = 4,
  kSelectBins = 256,
};

// A key of 0 is none.
struct SelectShared {
  // Of each CTA of the cluster, at the rank it has; this CTA counts at its own.
  alignas(16) uint32 counts[kSelectDigits][kSelectCtas][kSelectBins];
  unsigned long long barriers[kSelectDigits];
  uint32 found[kSelectDigits][3];  // The digit, how many keys of it are taken, and how many it has.
  uint32 warp_sums[2][2][kSelectThreads / kWarpLanes];
};

// What is taken: every key above `key`, and the first `equals` of the `ties` equal to it.
struct Threshold {
  uint32 key;
  uint32 equals;
  uint32 ties;
  uint32 digits;  // How many were looked at.
};

__device__ __forceinline__ uint32 sum_up_to_lane(uint32 value, uint32 lane) {
#pragma unroll
  for (uint32 step = 1; step < kWarpLanes; step *= 2) {
    const uint32 other = __shfl_up_sync(0xffffffffu, value, step);
    value += lane >= step ? other : 0u;
  }
  return value;
}

// Sums over the threads of a CTA, the last one done once every thread has called the next.
struct CtaScan {
  SelectShared& shared;
  uint32 turn = 0;

  // Returns the sum of the values of the threads before this one; `total` is that of all, and
  // `added` becomes that of all threads.
  __device__ __forceinline__ uint32 before(uint32 value, uint32& total, uint32& added) {
    const uint32 lane = threadIdx.x % kWarpLanes;
    const uint32 warp = threadIdx.x / kWarpLanes;
    uint32(&sums)[2][kSelectThreads / kWarpLanes] = shared.warp_sums[turn % 2];
    ++turn;
    const uint32 sum = sum_up_to_lane(value, lane);
    added = __reduce_add_sync(0xffffffffu, added);
    if (lane == kWarpLanes - 1) {
      sums[0][warp] = sum;
      sums[1][warp] = added;
    }
    __syncthreads();
    const uint32 warps = sums[0][lane];
    added = __reduce_add_sync(0xffffffffu, sums[1][lane]);
    total = __reduce_add_sync(0xffffffffu, warps);
    return __reduce_add_sync(0xffffffffu, lane < warp ? warps : 0u) + sum - value;
  }
};

// Before the first key is counted, and before the wait.
__device__ __forceinline__ void prepare_select(SelectShared& shared, uint32 rank, uint32 ctas) {
  for (uint32 i = threadIdx.x; i < kSelectDigits * kSelectBins; i += kSelectThreads)
    shared.counts[i / kSelectBins][rank][i % kSelectBins] = 0;
  if (ctas == 1) {
    __syncthreads();
    return;
  }
  // One thread of a warp: lanes would make theirs one after the other, and racecheck takes a
  // barrier that a lane makes for one that all of them write.
  if (threadIdx.x % kWarpLanes == 0 && threadIdx.x < kSelectDigits * kWarpLanes) {
    const uint32 barrier = shared_address(&shared.barriers[threadIdx.x / kWarpLanes]);
    init_byte_barrier(barrier);
    arrive_expecting(barrier, (ctas - 1) * kSelectBins * 4);
  }
  cluster_barrier();
}

__device__ __forceinline__ void count_first_digit(SelectShared& shared, uint32 rank, uint32 key) {
  if (key != 0)
    atomicAdd(&shared.counts[0][rank][key >> 24], 1u);
}

// The counts of this CTA to all others, and those of the others from them, in the first warp.
__device__ __forceinline__ void share_counts(SelectShared& shared, uint32 digit, uint32 rank,
                                             uint32 ctas) {
  const uint32 bin = threadIdx.x % kSelectBins;
  const uint32 own = shared_address(&shared.counts[digit][rank][bin]);
  const uint32 barrier = shared_address(&shared.barriers[digit]);
  const float count = __uint_as_float(shared.counts[digit][rank][bin]);
  for (uint32 cta = threadIdx.x / kSelectBins; cta < ctas; cta += kSelectThreads / kSelectBins) {
    if (cta != rank)
      send(address_in_cta(own, cta), count, address_in_cta(barrier, cta));
  }
  if (threadIdx.x < kWarpLanes)
    wait_for_bytes(barrier, 0);
}

// The digit of the `wanted`-th greatest of the keys that were counted, found by one warp, a lane
// for eight bins, the greatest first.
__device__ __forceinline__ void find_digit(SelectShared& shared, uint32 digit, uint32 wanted,
                                           uint32 rank, uint32 ctas) {
  constexpr uint32 kBins = kSelectBins / kWarpLanes;
  const uint32 lane = threadIdx.x;
  const uint32 lowest = kSelectBins - kBins - kBins * lane;
  uint32 sums[kBins] = {};
#pragma unroll
  for (uint32 cta = 0; cta < kSelectCtas; ++cta) {
    if (cta < ctas) {
      const uint32* const bins = &shared.counts[digit][ctas == 1 ? rank : cta][lowest];
#pragma unroll
      for (uint32 i = 0; i < kBins; i += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(bins + i);
        sums[i] += four.x;
        sums[i + 1] += four.y;
        sums[i + 2] += four.z;
        sums[i + 3] += four.w;
      }
    }
  }
  uint32 own = 0;
#pragma unroll
  for (uint32 i = 0; i < kBins; ++i)
    own += sums[i];
  const uint32 through = sum_up_to_lane(own, lane);
  uint32 above = through - own;
  if (above >= wanted || wanted > through)
    return;
#pragma unroll
  for (uint32 i = kBins; i-- > 0;) {
    if (above < wanted && wanted <= above + sums[i]) {
      shared.found[digit][0] = lowest + i;
      shared.found[digit][1] = wanted - above;
      shared.found[digit][2] = sums[i];
    }
    above += sums[i];
  }
}

// keys.each(take) passes every key of the thread to `take`. The first digit of all keys has been
// counted, of which there are at least k >= 1.
template <class Keys>
__device__ __forceinline__ Threshold find_threshold(SelectShared& shared, uint32 k, uint32 rank,
                                                    uint32 ctas, Keys& keys) {
  Threshold threshold{0, k, 0, 0};
#pragma unroll 1
  for (uint32 digit = 0; digit < kSelectDigits; ++digit) {
    const uint32 shift = 24 - 8 * digit;
    if (digit != 0) {
      keys.each([&](uint32 key) {
        if (key >> (shift + 8) == threshold.key && key != 0)
          atomicAdd(&shared.counts[digit][rank][key >> shift & (kSelectBins - 1)], 1u);
      });
    }
    __syncthreads();
    if (ctas != 1)
      share_counts(shared, digit, rank, ctas);
    if (threadIdx.x < kWarpLanes)
      find_digit(shared, digit, threshold.equals, rank, ctas);
    __syncthreads();
    threshold.key = threshold.key << 8 | shared.found[digit][0];
    threshold.equals = shared.found[digit][1];
    threshold.ties = shared.found[digit][2];
    threshold.digits = digit + 1;
    if (shift != 0 && threshold.ties == threshold.equals) {
      // All keys that begin like this are taken: those above the greatest that does not.
      threshold.key = threshold.key == 0 ? 0u : (threshold.key << shift) - 1;
      threshold.equals = threshold.ties = 0;
      break;
    }
  }
  return threshold;
}

// What the CTAs before this one have of the keys above the threshold, a part in each thread.
__device__ __forceinline__ uint32 part_above_before(const SelectShared& shared,
                                                    const Threshold& threshold, uint32 rank) {
  const uint32 bin = threadIdx.x % kSelectBins;
  uint32 part = 0;
  for (uint32 digit = 0; digit < threshold.digits; ++digit) {
    const bool all = digit + 1 == threshold.digits && threshold.ties == 0;
    if (bin > shared.found[digit][0] || (all && bin == shared.found[digit][0])) {
      for (uint32 cta = threadIdx.x / kSelectBins; cta < rank; cta += kSelectThreads / kSelectBins)
        part += shared.counts[digit][cta][bin];
    }
  }
  return part;
}

// How many keys equal to the threshold the CTAs before this one have.
__device__ __forceinline__ uint32 equal_before(const SelectShared& shared,
                                               const Threshold& threshold, uint32 rank) {
  if (threshold.ties == 0)
    return 0;
  uint32 equal = 0;
  for (uint32 cta = 0; cta < rank; ++cta)
    equal += shared.counts[threshold.digits - 1][cta][shared.found[threshold.digits - 1][0]];
  return equal;
}

}  // namespace kiln
