// The k greatest of a row's scores: NaN above +inf, ties toward the lower index.
// May live here: the selection by digits of keys that the CTAs of a cluster make together, and what
// they pass to a sink. No kernel.
//
// Three histograms, of 11, 11 and 10 bits of the keys, find the key of the k-th greatest score and
// how many of the scores that have it are taken; counts of the threads before it then give each
// score that is taken its place, in ascending order of indices. So the result depends on the scores
// alone. Launch: block (kSelectThreads), grid (rows * CTAs of a row), cluster (CTAs of a row).
#pragma once

#include "prelude/cluster_read.cuh"
#include "prelude/float_order.cuh"
#include "prelude/global.cuh"
#include "prelude/shared.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 {
  kSelectThreads = 1024,
  kSelectHeld = 16,  // Scores that a thread holds; of longer rows, it reads as many at once again.
  kSelectDigits = 3,
  kSelectBins = 2 * kSelectThreads,
};

// Where a digit lies in a key.
__device__ constexpr uint32 digit_shift(uint32 digit) {
  return digit == 0 ? 21 : digit == 1 ? 10 : 0;
}
__device__ constexpr uint32 digit_bins(uint32 digit) {
  return digit == 2 ? 1024 : 2048;
}

struct SelectShared {
  // One for each digit, so that none is cleared while another CTA reads it.
  alignas(8) uint32 bins[kSelectDigits][kSelectBins];
  alignas(8) uint32 counts[2];  // Scores above the threshold, and equal to it, of this CTA.
  uint32 found[kSelectDigits][2];
  uint32 warp_sums[2][kSelectThreads / kWarpLanes];
};

// Sums over the threads of a CTA, the last one done once every thread has called the next.
struct CtaScan {
  SelectShared& shared;
  uint32 turn = 0;

  // Returns the sum of the values of the threads before this one; `total` is that of all.
  __device__ __forceinline__ uint32 before(uint32 value, uint32& total) {
    const uint32 lane = threadIdx.x % kWarpLanes;
    const uint32 warp = threadIdx.x / kWarpLanes;
    uint32* const sums = shared.warp_sums[turn % 2];
    ++turn;
    uint32 sum = sum_up_to(value, lane);
    if (lane == kWarpLanes - 1)
      sums[warp] = sum;
    __syncthreads();
    const uint32 warps = sum_up_to(sums[lane], lane);
    total = __shfl_sync(0xffffffffu, warps, kWarpLanes - 1);
    const uint32 through = __shfl_sync(0xffffffffu, warps, warp);
    const uint32 own = __shfl_sync(0xffffffffu, sum, kWarpLanes - 1);
    return through - own + sum - value;
  }

 private:
  static __device__ __forceinline__ uint32 sum_up_to(uint32 value, uint32 lane) {
#pragma unroll
    for (uint32 step = 1; step < kWarpLanes; step *= 2) {
      const uint32 other = __shfl_up_sync(0xffffffffu, value, step);
      value += lane >= step ? other : 0u;
    }
    return value;
  }
};

// A row's scores as the threads of its cluster share them: in rounds, in each of which a thread has
// `per_thread` scores one after the other, a multiple of 4 and at most kSelectHeld. With HELD there
// is one round.
template <bool HELD>
struct SelectSource {
  const float* scores;
  uint32 count;
  uint32 per_thread;
  uint32 rounds;
  uint32 rank;
  bool vectors;  // The row starts on a 16-byte boundary.
  uint32 keys[kSelectHeld];

  __device__ __forceinline__ uint32 first(uint32 round) const {
    return ((rank * rounds + round) * kSelectThreads + threadIdx.x) * per_thread;
  }
  // Loads a round's keys; those past the end are 0, which no score has.
  __device__ __forceinline__ void load(uint32 round) {
    const uint32 begin = first(round);
    uint32 bits[kSelectHeld] = {};
    if (vectors && begin + per_thread <= count) {
      load_vectors<0>(begin, bits);
    } else {
#pragma unroll
      for (uint32 i = 0; i < kSelectHeld; ++i) {
        if (i < per_thread && begin + i < count)
          bits[i] = __float_as_uint(load_element(scores + (begin + i)));
      }
    }
#pragma unroll
    for (uint32 i = 0; i < kSelectHeld; ++i)
      keys[i] = i < per_thread && begin + i < count ? order_key(bits[i]) : 0u;
  }
  template <int FIRST>
  __device__ __forceinline__ void load_vectors(uint32 begin, uint32 (&bits)[kSelectHeld]) {
    if constexpr (FIRST < int{kSelectHeld}) {
      if (FIRST < per_thread)
        load_16<FIRST>(scores + (begin + FIRST), bits);
      load_vectors<FIRST + 4>(begin, bits);
    }
  }
  __device__ __forceinline__ void reload(uint32 round) {
    if constexpr (!HELD)
      load(round);
  }
};

// What is taken: every key above `key`, and the first `equals` of those equal to it.
struct Threshold {
  uint32 key;
  uint32 equals;
};

// The bin that holds the `wanted`-th greatest key, and which of the keys in it that one is, to
// shared.found. Every CTA of the cluster works it out from the bins of all.
__device__ __forceinline__ void find_bin(SelectShared& shared, uint32 digit, uint32 wanted,
                                         uint32 ctas, CtaScan& scan) {
  constexpr uint32 kMostCtas = 8;
  const uint32 lower = kSelectBins - 2 - 2 * threadIdx.x;  // The thread's bins, the greatest first.
  const uint32 address = shared_address(&shared.bins[digit][lower]);
  uint32 low = 0;
  uint32 high = 0;
#pragma unroll
  for (uint32 cta = 0; cta < kMostCtas; ++cta) {
    if (cta < ctas) {
      uint32 pair[2];
      read_cta_2(address_in_cta(address, cta), pair);
      low += pair[0];
      high += pair[1];
    }
  }
  uint32 total;
  const uint32 above = scan.before(low + high, total);
  if (above < wanted && wanted <= above + low + high) {
    const bool upper = wanted <= above + high;
    shared.found[digit][0] = upper ? lower + 1 : lower;
    shared.found[digit][1] = wanted - (upper ? above : above + high);
  }
  __syncthreads();
}

__device__ __forceinline__ void meet(uint32 ctas) {
  if (ctas == 1) {
    __syncthreads();
  } else {
    arrive_at_cluster();
    wait_for_cluster();
  }
}

// 1 <= k <= source.count. The bins are zero, and the CTA has met since they were made so.
template <bool HELD>
__device__ __forceinline__ Threshold find_threshold(SelectSource<HELD>& source, uint32 k,
                                                    uint32 ctas, SelectShared& shared,
                                                    CtaScan& scan) {
  Threshold threshold{0, k};
#pragma unroll
  for (uint32 digit = 0; digit < kSelectDigits; ++digit) {
    const uint32 shift = digit_shift(digit);
    for (uint32 round = 0; round < source.rounds; ++round) {
      source.reload(round);
#pragma unroll
      for (uint32 i = 0; i < kSelectHeld; ++i) {
        const uint32 key = source.keys[i];
        const bool counts = digit == 0 ? key != 0 : key >> digit_shift(digit - 1) == threshold.key;
        if (counts)
          atomicAdd(&shared.bins[digit][key >> shift & (digit_bins(digit) - 1)], 1u);
      }
    }
    meet(ctas);
    find_bin(shared, digit, threshold.equals, ctas, scan);
    threshold.key = threshold.key * digit_bins(digit) | shared.found[digit][0];
    threshold.equals = shared.found[digit][1];
  }
  return threshold;
}

// Above and equal, counted together: no CTA has 2^16 of either in a round.
__device__ __forceinline__ uint32 count_key(uint32 key, const Threshold& threshold) {
  return key > threshold.key ? 1u : key == threshold.key ? 1u << 16 : 0u;
}
__device__ __forceinline__ uint32 count_keys(const uint32 (&keys)[kSelectHeld],
                                             const Threshold& threshold) {
  uint32 counts = 0;
#pragma unroll
  for (uint32 i = 0; i < kSelectHeld; ++i)
    counts += count_key(keys[i], threshold);
  return counts;
}

// Passes each score that is taken to sink.take(place, index, key), and the last of those equal to
// the threshold to sink.take_last(threshold, index) besides. Every thread of the cluster calls it,
// once shared.bins is zero and the CTA has met; the CTA must not end before the cluster has met
// again.
template <bool HELD, class Sink>
__device__ __forceinline__ void select_keys(SelectSource<HELD>& source, uint32 k, uint32 ctas,
                                            SelectShared& shared, const Sink& sink) {
  CtaScan scan{shared};
  if constexpr (HELD)
    source.load(0);
  const Threshold threshold = find_threshold(source, k, ctas, shared, scan);
  // How many the CTAs before this one have.
  uint32 above = 0;
  uint32 equal = 0;
  if (ctas > 1) {
    uint32 total[2] = {};
    for (uint32 round = 0; round < source.rounds; ++round) {
      source.reload(round);
      uint32 counts;
      scan.before(count_keys(source.keys, threshold), counts);
      total[0] += counts & 0xffffu;
      total[1] += counts >> 16;
    }
    if (threadIdx.x == 0) {
      shared.counts[0] = total[0];
      shared.counts[1] = total[1];
    }
    meet(ctas);
    const uint32 address = shared_address(shared.counts);
    for (uint32 cta = 0; cta < source.rank; ++cta) {
      uint32 pair[2];
      read_cta_2(address_in_cta(address, cta), pair);
      above += pair[0];
      equal += pair[1];
    }
    arrive_at_cluster();  // The last look at another CTA's memory.
  }
  for (uint32 round = 0; round < source.rounds; ++round) {
    source.reload(round);
    uint32 total;
    const uint32 before = scan.before(count_keys(source.keys, threshold), total);
    uint32 above_here = above + (before & 0xffffu);
    uint32 equal_here = equal + (before >> 16);
#pragma unroll
    for (uint32 i = 0; i < kSelectHeld; ++i) {
      const uint32 key = source.keys[i];
      const bool is_equal = key == threshold.key && equal_here < threshold.equals;
      if (key > threshold.key || is_equal) {
        const uint32 index = source.first(round) + i;
        sink.take(above_here + min(equal_here, threshold.equals), index, key);
        if (is_equal && equal_here + 1 == threshold.equals)
          sink.take_last(threshold.key, index);
      }
      above_here += key > threshold.key ? 1u : 0u;
      equal_here += key == threshold.key ? 1u : 0u;
    }
    above += total & 0xffffu;
    equal += total >> 16;
  }
  if (ctas > 1)
    wait_for_cluster();
}

__device__ __forceinline__ void clear_bins(SelectShared& shared) {
  for (uint32 i = threadIdx.x; i < kSelectDigits * kSelectBins; i += kSelectThreads)
    (&shared.bins[0][0])[i] = 0;
}

// The whole of a row: `count` scores, of which 1 <= k <= count are taken.
template <class Sink>
__device__ __forceinline__ void select_row(const float* scores, uint32 count, uint32 k,
                                           SelectShared& shared, const Sink& sink) {
  const uint32 ctas = cluster_ctas();
  const uint32 rank = blockIdx.x % ctas;
  const uint32 threads = ctas * kSelectThreads;
  const uint32 per_thread = (count - 1) / threads / 4 * 4 + 4;
  const bool vectors = reinterpret_cast<unsigned long long>(scores) % 16 == 0;
  __syncthreads();
  if (per_thread <= kSelectHeld) {
    SelectSource<true> source{scores, count, per_thread, 1, rank, vectors};
    select_keys(source, k, ctas, shared, sink);
  } else {
    const uint32 rounds = (count - 1) / (threads * kSelectHeld) + 1;
    SelectSource<false> source{scores, count, kSelectHeld, rounds, rank, vectors};
    select_keys(source, k, ctas, shared, sink);
  }
}

}  // namespace kiln
