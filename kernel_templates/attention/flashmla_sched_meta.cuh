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
// A partition that begins with block 0 of request j, at x = W(j), is followed by ones that begin at
// x + Q, x + 2 * Q and so on, up to the first that begins with a request, m partitions on. Where
// that is depends on j alone: all threads look for it for every request, and one warp then goes
// from each such partition to the next, reading one word.
//
// Launch: one CTA of a multiple of 32 threads, at most kScheduleThreads, with shared memory for a
// word of each request and one more, two words of each partition and one more, and, where it is to
// be `tabled`, another word of each request.
#pragma once

#include "prelude/division.cuh"
#include "prelude/global.cuh"
#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 { kScheduleThreads = 1024 };

// The lengths of a step's requests. Null pointers stand for what is not given.
struct ScheduleLengths {
  const int* seqlens_k;
  const int* topk_length;
  const int* extra_topk_length;
  int topk;  // -1: dense.
  int extra_topk;

  // The blocks of a request, at least one; `none` becomes whether its length is 0.
  __device__ __forceinline__ uint32 blocks(uint32 request, const Divisor& block, bool& none) const {
    const bool dense = topk == -1;
    const int* const given = dense ? seqlens_k : topk_length;
    int length = topk;
    if (given != nullptr)
      length = load_int(given + request);
    length = length == 0 && !dense ? 1 : length;
    none = length == 0;
    if (dense || extra_topk == 0)
      return block.divide(static_cast<uint32>(max(length - 1, 0))) + 1;
    int extra = extra_topk;
    if (extra_topk_length != nullptr)
      extra = load_int(extra_topk_length + request);
    // The extra begins with a block of its own, so blocks add up; positions may pass 2^31.
    const uint32 all = blocks_up(length, block) + blocks_up(extra, block);
    none = all == 0;
    return max(all, 1u);
  }
  __device__ __forceinline__ uint32 blocks(uint32 request, const Divisor& block) const {
    bool none;
    return blocks(request, block, none);
  }
  static __device__ __forceinline__ uint32 blocks_up(int length, const Divisor& block) {
    return block.divide(static_cast<uint32>(max(length, 0)) + block.value - 1);
  }
};

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

// Finds places among W.
struct CostIndex {
  const uint32* sums;  // W
  uint32* first;       // Of each stretch of 2^shift blocks, and of the end: its first W.
  uint32 requests;
  uint32 shift;

  // The first of W at or after a place, which is at most W(requests).
  __device__ __forceinline__ uint32 first_from(uint32 place) const {
    const uint32 stretch = place >> shift;
    return first_from(place, first[stretch], first[stretch + 1]);
  }
  // As above, when it is one of [low, high].
  __device__ __forceinline__ uint32 first_from(uint32 place, uint32 low, uint32 high) const {
    while (low < high) {
      const uint32 middle = (low + high) / 2;
      const bool before = sums[middle] < place;
      low = before ? middle + 1 : low;
      high = before ? high : middle;
    }
    return low;
  }
  __device__ __forceinline__ uint32 last_at_most(uint32 place) const {
    const uint32 at = first_from(place);
    return sums[at] == place ? at : at - 1;
  }

  // All threads of the CTA call it, and synchronize before it and after it.
  __device__ __forceinline__ void build() const {
    const uint32 stretches = stretches_of_cta();
    for (uint32 i = threadIdx.x; i <= stretches; i += blockDim.x)
      first[i] = first_from(i << shift, 0, requests);
  }
  // A power of two.
  static __device__ __forceinline__ uint32 stretches_of_cta() {
    return 1u << (31 - __clz(static_cast<int>(blockDim.x)));
  }
  // So that they hold W(requests), which is at least 1 and below 2^31.
  static __device__ __forceinline__ uint32 shift_for(uint32 total) {
    const int bits = 32 - __clz(static_cast<int>(total));
    return static_cast<uint32>(max(bits - (31 - __clz(static_cast<int>(blockDim.x))), 0));
  }
};

// From a partition that begins with a request to the next one that does.
struct Hop {
  uint32 partitions;  // 0: further than was looked
  uint32 request;

  static constexpr uint32 kBits = 8;
  __device__ __forceinline__ uint32 packed() const { return request << kBits | partitions; }
  static __device__ __forceinline__ Hop of(uint32 packed) {
    return {packed % (1u << kBits), packed >> kBits};
  }
};

// Where the partitions begin.
struct Places {
  enum : uint32 { kLooks = 4 };  // by each thread, at partitions behind one request

  CostIndex costs;
  uint32* hops;  // Of each request; null: nothing is looked up.
  uint32* places;
  uint32* fresh;  // Of each partition: how many up to it, 0 left out, begin with a request.
  uint32 partitions;
  uint32 total;  // W(requests)
  uint32 step;   // Q
  uint32 overhead;

  // Threads that look behind one request, a power of two.
  __device__ __forceinline__ uint32 sharers() const {
    uint32 threads = 1;
    while (threads < kWarpLanes && 2 * threads * costs.requests <= blockDim.x)
      threads *= 2;
    return threads;
  }

  // Whether the partition so many behind the one that begins with a request at `start` begins with
  // `request`, which becomes the one that it would.
  __device__ __forceinline__ bool begins(uint32 start, uint32 behind, uint32& request) const {
    const uint32 place = min(start + min(behind, partitions) * step, total);
    request = costs.first_from(place);
    return costs.sums[request] - place <= overhead;
  }

  // For every request. All threads of the CTA call it.
  __device__ __forceinline__ void look_behind_all() const {
    const uint32 threads = sharers();
    const uint32 share = threadIdx.x % threads;
    const uint32 wanted = costs.requests * threads;
    for (uint32 i = threadIdx.x; i - threadIdx.x % kWarpLanes < wanted; i += blockDim.x) {
      const uint32 request = min(i / threads, costs.requests - 1);
      const uint32 start = costs.sums[request];
      constexpr uint32 kNone = 0xffffffffu;
      Hop own{kNone, 0};
      for (uint32 look = 0; look < kLooks; ++look) {
        const uint32 behind = 1 + share + look * threads;
        if (begins(start, behind, own.request)) {
          own.partitions = behind;
          break;
        }
      }
      uint32 nearest = own.partitions;
      for (uint32 mask = 1; mask < threads; mask *= 2)
        nearest = min(nearest, __shfl_xor_sync(0xffffffffu, nearest, mask));
      const bool none = nearest == kNone;
      if (i < wanted && (none ? share == 0 : nearest == own.partitions))
        hops[request] = none ? 0 : own.packed();
    }
  }

  // Of one warp: looks on behind `looked` partitions, as far as there are `left`.
  __device__ __forceinline__ Hop look_on(uint32 start, uint32 looked, uint32 left) const {
    for (; looked < left; looked += kWarpLanes) {
      uint32 request;
      const bool found = begins(start, looked + 1 + threadIdx.x % kWarpLanes, request);
      const uint32 lanes = __ballot_sync(0xffffffffu, found);
      if (lanes != 0) {
        const int lane = __ffs(static_cast<int>(lanes)) - 1;
        return {looked + 1 + lane, __shfl_sync(0xffffffffu, request, lane)};
      }
    }
    return {left, costs.requests};
  }

  // One warp calls it.
  __device__ __forceinline__ void go() const {
    const uint32 lane = threadIdx.x % kWarpLanes;
    const uint32 looked = hops != nullptr ? kLooks * sharers() : 0;
    uint32 request = 0;
    uint32 p = 0;
    for (uint32 begun = 0; request < costs.requests && p < partitions; ++begun) {
      const uint32 left = partitions - p;
      const uint32 start = costs.sums[request];
      Hop hop = hops != nullptr ? Hop::of(hops[request]) : Hop{0, 0};
      if (hop.partitions == 0)
        hop = look_on(start, looked, left);
      for (uint32 i = lane; i < min(hop.partitions, left); i += kWarpLanes) {
        places[p + i] = start + i * step;
        fresh[p + i] = begun;
      }
      p += min(hop.partitions, left);
      request = hop.request;
    }
    for (uint32 i = p + lane; i <= partitions; i += kWarpLanes)
      places[i] = total;
  }
};

// meta: [partitions, 8]. num_splits: [requests + 1].
template <bool PDL>
__global__ void __launch_bounds__(kScheduleThreads, 1)
    flashmla_sched_meta(int* meta, int* num_splits, const int* seqlens_k, const int* topk_length,
                        const int* extra_topk_length, int block_size_n, int overhead, int topk,
                        int extra_topk, int requests, int partitions, int tabled) {
  extern __shared__ uint32 schedule_storage[];
  __shared__ uint32 warp_sums[kScheduleThreads / kWarpLanes];
  __shared__ uint32 stretches[kScheduleThreads + 1];
  launch_dependents<PDL>();
  const uint32 count = static_cast<uint32>(requests);
  const uint32 parts = static_cast<uint32>(partitions);
  uint32* const sums = schedule_storage;
  uint32* const places = sums + (count + 1);
  uint32* const fresh = places + (parts + 1);
  uint32* const hops = fresh + (parts + 1);
  const ScheduleLengths lengths{seqlens_k, topk_length, extra_topk_length, topk, extra_topk};
  const Divisor block(static_cast<uint32>(block_size_n));
  if (threadIdx.x == 0)
    sums[0] = 0;
  wait_for_prerequisites<PDL>();

  for (uint32 i = threadIdx.x; i < count; i += blockDim.x)
    sums[i + 1] = lengths.blocks(i, block) + static_cast<uint32>(overhead);
  __syncthreads();
  sum_costs(sums, count, warp_sums);
  __syncthreads();
  const uint32 total = sums[count];
  const CostIndex costs{sums, stretches, count, CostIndex::shift_for(total)};
  costs.build();
  __syncthreads();
  // About how many partitions begin with a request; for few, each of them is looked for when its
  // turn comes.
  constexpr uint32 kFew = 16;
  const uint32 each = static_cast<uint32>(overhead) + 1;
  const bool many = count > kFew && static_cast<unsigned long long>(parts) * each * count >
                                        static_cast<unsigned long long>(total) * kFew;
  const Places walk{costs,
                    tabled != 0 && many ? hops : nullptr,
                    places,
                    fresh,
                    parts,
                    total,
                    (total - 1) / parts + 1,
                    static_cast<uint32>(overhead)};
  if (walk.hops != nullptr) {
    walk.look_behind_all();
    __syncthreads();
  }
  if (threadIdx.x < kWarpLanes)
    walk.go();
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
    const uint32 first = idle ? count : costs.last_at_most(begin);
    const uint32 next = end == total ? count : costs.last_at_most(end);
    const uint32 taken = end - sums[next];  // Of request `next`, which stays open if it is any.
    const bool open = taken != 0;
    const uint32 ending = open ? next : next - 1;
    const uint32 begin_block = begin - sums[first];
    bool none;
    const uint32 blocks = lengths.blocks(ending, block, none);
    const uint32 end_block = open ? taken : none ? 0u : blocks;
    const uint32 split = begin_block == 0 ? 0u : p - last_at_most(places, p + 1, sums[first]);
    uint32 resumes = begin_block != 0 ? 1 : 0;
    uint32 leaves = !none && end_block != blocks ? 1 : 0;
    if (first == ending)
      resumes = leaves = resumes | leaves;
    const uint32 words[8] = {first,     ending, idle ? lengths.blocks(0, block) - 1 : begin_block,
                             end_block, split,  resumes,
                             leaves,    0};
    store_16<0>(meta + static_cast<int64>(p) * 8, words);
    store_16<4>(meta + static_cast<int64>(p) * 8 + 4, words);
  }
}

}  // namespace kiln
