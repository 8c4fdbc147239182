// The tile schedule of split-KV attention: which blocks of which requests each partition takes, and
// into how many splits each request falls.
// May live here: this kernel alone.
//
// Let every request cost its blocks and an overhead, and W(i) be what the requests before i cost. A
// partition that begins with block b of request i begins at x = W(i) + b. Walking through requests
// as the contract says, it ends, and the next begins,
//
//   at x + Q, where Q = ceil(W(requests) / partitions), unless that is at most the overhead in
//   front of some W(j); then at that W(j), since what is left pays for no block of request j.
//
// There is one such j at most, the last one with W(j) <= x + Q + overhead; so the next partition
// begins at max(x + Q, W(j)). Which request it begins with, and how many splits a request has,
// follow from these places by searches that do not depend on each other:
//
//   the request of x is the last i with W(i) <= x, and its split is how many partitions after the
//   one in which request i begins;
//   requests 0 to i have as many splits as there are partitions that begin before W(i + 1), plus
//   those requests after 0 that begin inside a partition instead of with one.
//
// Only the places are worked out one after the other, by one warp that has 128 of the W in
// registers. Launch: one CTA of a multiple of 32 threads, at most kScheduleThreads, with shared
// memory for requests / 128 * 128 + 256 words of W and two words of each partition and one more.
#pragma once

#include "prelude/division.cuh"
#include "prelude/global.cuh"
#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 { kScheduleThreads = 1024, kWindow = 4 * kWarpLanes, kNoPlace = 0xffffffffu };

// The lengths of a step's requests. Null pointers stand for what is not given.
struct ScheduleLengths {
  const int* seqlens_k;
  const int* topk_length;
  const int* extra_topk_length;
  int topk;  // -1: dense.
  int extra_topk;
  int block_size;

  __device__ __forceinline__ int of(uint32 request) const {
    if (topk == -1)
      return load_int(seqlens_k + request);
    int length = topk;
    int extra = extra_topk;
    if (topk_length != nullptr)
      length = load_int(topk_length + request);
    if (extra_topk != 0 && extra_topk_length != nullptr)
      extra = load_int(extra_topk_length + request);
    length = length == 0 ? 1 : length;
    return extra_topk == 0 ? length : (length + block_size - 1) / block_size * block_size + extra;
  }
};

__device__ __forceinline__ uint32 schedule_blocks(int length, const Divisor& block) {
  return block.divide(static_cast<uint32>(max(length - 1, 0))) + 1;
}

// The last of `count` ascending places that is at most `place`; the first one is.
__device__ __forceinline__ uint32 last_at_most(const uint32* places, uint32 count, uint32 place) {
  uint32 low = 0;
  uint32 high = count;
  while (high - low > 1) {
    const uint32 middle = (low + high) / 2;
    if (places[middle] <= place) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// costs[1] to costs[requests] hold what requests cost; they become W. All threads of the CTA call
// it.
__device__ __forceinline__ void sum_costs(uint32* costs, uint32 requests, uint32* warp_sums) {
  const uint32 lane = threadIdx.x % kWarpLanes;
  const uint32 warp = threadIdx.x / kWarpLanes;
  const uint32 per_thread = (requests - 1) / blockDim.x + 1;
  const uint32 begin = min(1 + threadIdx.x * per_thread, requests + 1);
  const uint32 end = min(begin + per_thread, requests + 1);
  uint32 own = 0;
  for (uint32 i = begin; i < end; ++i)
    own += costs[i];
  uint32 through = own;
#pragma unroll
  for (uint32 step = 1; step < kWarpLanes; step *= 2) {
    const uint32 other = __shfl_up_sync(0xffffffffu, through, step);
    through += lane >= step ? other : 0u;
  }
  if (lane == kWarpLanes - 1)
    warp_sums[warp] = through;
  __syncthreads();
  uint32 sum = through - own;
  for (uint32 i = 0; i < warp; ++i)
    sum += warp_sums[i];
  for (uint32 i = begin; i < end; ++i) {
    sum += costs[i];
    costs[i] = sum;
  }
}

// Where the partitions begin, worked out by one warp.
struct PlaceWalk {
  const uint32* sums;  // W, on a 16-byte boundary; kNoPlace behind the last one.
  uint32* places;
  uint32* fresh;  // Of each partition: how many up to it, 0 left out, begin with a request.
  uint32 partitions;
  uint32 total;  // W(requests)
  uint32 step;   // Q
  uint32 overhead;

  uint32 window[4];
  uint32 base;    // of the window
  uint32 before;  // W of the last request in front of the window
  uint32 last;    // of the window

  __device__ __forceinline__ void load(uint32 lane) {
    const uint4 four = *reinterpret_cast<const uint4*>(sums + base + 4 * lane);
    window[0] = four.x;
    window[1] = four.y;
    window[2] = four.z;
    window[3] = four.w;
    last = __shfl_sync(0xffffffffu, window[3], kWarpLanes - 1);
  }

  // The greatest W at most `limit`, for a limit not less than any before.
  __device__ __forceinline__ uint32 boundary(uint32 limit, uint32 lane) {
    while (last <= limit) {
      before = last;
      base += kWindow;
      load(lane);
    }
    uint32 best = before;
#pragma unroll
    for (uint32 i = 0; i < 4; ++i)
      best = window[i] <= limit ? window[i] : best;
    return __reduce_max_sync(0xffffffffu, best);
  }
  // The least W above `place`, which lies in the window.
  __device__ __forceinline__ uint32 next_boundary(uint32 place) const {
    uint32 next = kNoPlace;
#pragma unroll
    for (uint32 i = 4; i-- > 0;)
      next = window[i] > place ? window[i] : next;
    return __reduce_min_sync(0xffffffffu, next);
  }

  // With `long_requests`, partitions that begin and end in one request are told all at once.
  __device__ __forceinline__ void go(bool long_requests) {
    const uint32 lane = threadIdx.x % kWarpLanes;
    const Divisor by_step(step);
    base = 0;
    before = 0;
    load(lane);
    uint32 place = 0;
    uint32 begun = 0;
    uint32 p = 0;
    if (lane == 0) {
      places[0] = 0;
      fresh[0] = 0;
    }
    while (p < partitions && place < total) {
      if (long_requests) {
        const uint32 room = next_boundary(place) - place;
        const uint32 inside =
            min(room > overhead ? by_step.divide(room - overhead - 1) : 0u, partitions - p);
        for (uint32 i = lane + 1; i <= inside; i += kWarpLanes) {
          places[p + i] = place + i * step;
          fresh[p + i] = begun;
        }
        place += inside * step;
        p += inside;
        if (p == partitions)
          break;
      }
      const uint32 next = min(place + step, total);
      const uint32 reached = boundary(min(next + overhead, total), lane);
      const bool starts = reached >= next;
      place = starts ? reached : next;
      ++p;
      begun += starts ? 1u : 0u;
      if (lane == 0) {
        places[p] = place;
        fresh[p] = begun;
      }
    }
    for (uint32 i = p + 1 + lane; i <= partitions; i += kWarpLanes)
      places[i] = total;
  }
};

// meta: [partitions, 8]. num_splits: [requests + 1].
template <bool PDL>
__global__ void __launch_bounds__(kScheduleThreads, 1)
    flashmla_sched_meta(int* meta, int* num_splits, const int* seqlens_k, const int* topk_length,
                        const int* extra_topk_length, int block_size_n, int overhead, int topk,
                        int extra_topk, int requests, int partitions) {
  extern __shared__ uint4 schedule_storage[];
  __shared__ uint32 warp_sums[kScheduleThreads / kWarpLanes];
  launch_dependents<PDL>();
  const uint32 count = static_cast<uint32>(requests);
  const uint32 parts = static_cast<uint32>(partitions);
  uint32* const sums = reinterpret_cast<uint32*>(schedule_storage);
  const uint32 padded = count / kWindow * kWindow + 2 * kWindow;
  uint32* const places = sums + padded;
  uint32* const fresh = places + (parts + 1);
  const ScheduleLengths lengths{seqlens_k, topk_length, extra_topk_length,
                                topk,      extra_topk,  block_size_n};
  const Divisor block(static_cast<uint32>(block_size_n));
  for (uint32 i = count + 1 + threadIdx.x; i < padded; i += blockDim.x)
    sums[i] = kNoPlace;
  if (threadIdx.x == 0)
    sums[0] = 0;
  wait_for_prerequisites<PDL>();

  for (uint32 i = threadIdx.x; i < count; i += blockDim.x)
    sums[i + 1] = schedule_blocks(lengths.of(i), block) + static_cast<uint32>(overhead);
  __syncthreads();
  sum_costs(sums, count, warp_sums);
  __syncthreads();
  const uint32 total = sums[count];
  if (threadIdx.x < kWarpLanes) {
    PlaceWalk walk{
        sums, places, fresh, parts, total, (total - 1) / parts + 1, static_cast<uint32>(overhead)};
    walk.go(count < parts);
  }
  __syncthreads();

  for (uint32 i = threadIdx.x; i < count; i += blockDim.x) {
    // The last partition that has something of request i.
    const uint32 last = last_at_most(places, parts, sums[i + 1] - 1);
    store_4(num_splits + i + 1, last + i + 1 - fresh[last]);
    if (i == 0)
      store_4(num_splits, 0);
  }
  for (uint32 p = threadIdx.x; p < parts; p += blockDim.x) {
    const uint32 begin = places[p];
    const uint32 end = places[p + 1];
    const bool idle = begin == total;
    const uint32 first = idle ? count : last_at_most(sums, count, begin);
    const uint32 next = end == total ? count : last_at_most(sums, count, end);
    const uint32 taken = end - sums[next];  // Of request `next`, which stays open if it is any.
    const bool open = taken != 0;
    const uint32 ending = open ? next : next - 1;
    const uint32 begin_block = begin - sums[first];
    const int length = lengths.of(ending);
    const uint32 blocks = schedule_blocks(length, block);
    const uint32 end_block = open ? taken : length == 0 ? 0u : blocks;
    const uint32 split = begin_block == 0 ? 0u : p - last_at_most(places, p + 1, sums[first]);
    uint32 resumes = begin_block != 0 ? 1 : 0;
    uint32 leaves = length != 0 && end_block != blocks ? 1 : 0;
    if (first == ending)
      resumes = leaves = resumes | leaves;
    const uint32 words[8] = {
        first,     ending, idle ? schedule_blocks(lengths.of(0), block) - 1 : begin_block,
        end_block, split,  resumes,
        leaves,    0};
    store_16<0>(meta + static_cast<int64>(p) * 8, words);
    store_16<4>(meta + static_cast<int64>(p) * 8 + 4, words);
  }
}

}  // namespace kiln
