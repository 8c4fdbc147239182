// The index of the largest element of each row of fp32: the lowest one among equals, or that of the
// first NaN.
// May live here: the two kernels of this op.
//
// The CTAs of a cluster share a row and tell the first of them what they found. Where no cluster
// can have a whole row, the CTAs leave the best of their parts in a workspace, from which a warp of
// the second kernel takes the row's. Which of two elements wins depends on these two alone, so no
// bit depends on how a row is spread. Launch of the first: block (kArgmaxThreads), grid (rows *
// CTAs of a cluster, parts), where one of the two numbers is 1; of the second: block (a multiple of
// 32), a warp for each row.
#pragma once

#include "prelude/cluster.cuh"
#include "prelude/float_order.cuh"
#include "prelude/global.cuh"
#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/shared.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 {
  kArgmaxThreads = 256,
  kArgmaxBatch = 8,  // Vectors that a thread has under way at once.
  kArgmaxCtas = 16,  // Of a cluster, at most.
  kNoIndex = 0xffffffffu
};

// The best of what was seen.
struct ArgmaxKey {
  uint32 key;  // order_key; less than any where there is none.
  uint32 index;

  __device__ __forceinline__ void take(uint32 other_key, uint32 other_index) {
    if (other_key > key || (other_key == key && other_index < index)) {
      key = other_key;
      index = other_index;
    }
  }
  // Among all lanes of the warp, which must all call it.
  __device__ __forceinline__ void reduce_over_lanes() {
    const uint32 most = __reduce_max_sync(0xffffffffu, key);
    index = __reduce_min_sync(0xffffffffu, key == most ? index : uint32{kNoIndex});
    key = most;
  }
};

// A row as vectors of 4 between 16-byte boundaries; the elements in front of the first one and
// behind the last one are taken by themselves.
struct ArgmaxRow {
  const float* aligned;
  uint32 skipped;  // Elements of the first vector that lie in front of the row.
  uint32 first;    // Whole vectors [first, end).
  uint32 end;

  __device__ __forceinline__ ArgmaxRow(const float* row, uint32 n) {
    skipped = static_cast<uint32>(reinterpret_cast<unsigned long long>(row) / 4 % 4);
    aligned = row - skipped;
    first = skipped != 0 ? 1 : 0;
    end = (skipped + n) / 4;
  }
  __device__ __forceinline__ uint32 index(uint32 vector) const { return vector * 4 - skipped; }

  // Of thread number `thread` below 8: the element that it takes by itself, or kNoIndex.
  __device__ __forceinline__ uint32 edge_index(uint32 thread, uint32 n) const {
    const uint32 head = min((4 - skipped) % 4, n);
    if (thread < 4)
      return thread < head ? thread : uint32{kNoIndex};
    const uint32 element = max(head, end < first ? 0u : index(max(end, first))) + thread - 4;
    return thread < 8 && element < n ? element : uint32{kNoIndex};
  }
};

// The best of what a thread has seen so far, and then of a batch of vectors, a CTA's width apart,
// from `from` on, that of number `vector`; of those from number `end` on, none. All loads are under
// way at once.
__device__ __forceinline__ void take_vectors(ArgmaxKey& best, const float* from, uint32 skipped,
                                             uint32 vector, uint32 end) {
  uint32 words[kArgmaxBatch][4];
#pragma unroll
  for (uint32 j = 0; j < kArgmaxBatch; ++j) {
#pragma unroll
    for (uint32 i = 0; i < 4; ++i)
      words[j][i] = kNegativeInfinity;
    if (vector + j * kArgmaxThreads < end)
      load_16<0>(from + j * kArgmaxThreads * 4, words[j]);
  }
  float most = __uint_as_float(kNegativeInfinity);
#pragma unroll
  for (uint32 j = 0; j < kArgmaxBatch; ++j) {
    most = max_or_nan(
        most, max_or_nan(max_or_nan(__uint_as_float(words[j][0]), __uint_as_float(words[j][1])),
                         max_or_nan(__uint_as_float(words[j][2]), __uint_as_float(words[j][3]))));
  }
  const uint32 key = order_key(__float_as_uint(most));
  if (key <= best.key)
    return;
  uint32 first = 0;
  if (key != kNanKey) {
#pragma unroll
    for (uint32 j = kArgmaxBatch; j-- > 0;) {
#pragma unroll
      for (uint32 i = 4; i-- > 0;)
        first = __uint_as_float(words[j][i]) == most ? j * kArgmaxThreads * 4 + i : first;
    }
  } else {
#pragma unroll
    for (uint32 j = kArgmaxBatch; j-- > 0;) {
#pragma unroll
      for (uint32 i = 4; i-- > 0;)
        first = is_nan(words[j][i]) ? j * kArgmaxThreads * 4 + i : first;
    }
  }
  best = {key, vector * 4 - skipped + first};
}

// What the threads of a CTA, and the CTAs of a cluster, leave for each other.
struct ArgmaxShared {
  ArgmaxKey warps[kArgmaxThreads / kWarpLanes];
  ArgmaxKey ctas[kArgmaxCtas];
  unsigned long long barrier;
};

// The best of `count` keys, at most one for each lane of the warp.
__device__ __forceinline__ ArgmaxKey best_of_keys(const ArgmaxKey* keys, uint32 count) {
  const uint32 lane = threadIdx.x % kWarpLanes;
  ArgmaxKey best{0, kNoIndex};
  if (lane < count)
    best = keys[lane];
  best.reduce_over_lanes();
  return best;
}

// Among all threads of the CTA, in its first warp.
__device__ __forceinline__ void reduce_over_cta(ArgmaxKey& best, ArgmaxShared& shared) {
  best.reduce_over_lanes();
  if (threadIdx.x % kWarpLanes == 0)
    shared.warps[threadIdx.x / kWarpLanes] = best;
  __syncthreads();
  if (threadIdx.x < kWarpLanes)
    best = best_of_keys(shared.warps, kArgmaxThreads / kWarpLanes);
}

// Among the first warps of the cluster's CTAs, in that of the first one.
__device__ __forceinline__ void reduce_over_cluster(ArgmaxKey& best, ArgmaxShared& shared,
                                                    uint32 rank, uint32 ctas) {
  const uint32 barrier = shared_address(&shared.barrier);
  if (threadIdx.x == 0) {
    const uint32 to = address_in_cta(shared_address(&shared.ctas[rank]), 0);
    const uint32 barrier_of_first = address_in_cta(barrier, 0);
    send(to, __uint_as_float(best.key), barrier_of_first);
    send(to + 4, __uint_as_float(best.index), barrier_of_first);
  }
  if (rank != 0)
    return;
  wait_for_bytes(barrier, 0);
  best = best_of_keys(shared.ctas, ctas);
}

// Four CTAs of a multiprocessor: with the registers that the compiler would take by itself, it
// would wait for some loads before it starts others.
//
// x: rows of n >= 1 elements, x_row_stride elements apart. parts: [rows, gridDim.y]. out: [rows],
// which a row of one CTA or one cluster is written to. A part is of part_vectors vectors.
template <bool PDL>
__global__ void __launch_bounds__(kArgmaxThreads, 4)
    row_argmax(const float* x, int64 x_row_stride, ArgmaxKey* parts, int64* out, int n,
               int part_vectors) {
  __shared__ ArgmaxShared shared;
  launch_dependents<PDL>();
  uint32 ctas = cluster_ctas();
  uint32 rank = blockIdx.x % ctas;
  const int64 row_number = blockIdx.x / ctas;
  if (ctas != 1) {
    if (threadIdx.x == 0 && rank == 0) {  // No other CTA is told anything.
      init_byte_barrier(shared_address(&shared.barrier));
      arrive_expecting(shared_address(&shared.barrier), ctas * uint32{sizeof(ArgmaxKey)});
    }
    cluster_barrier();
  }
  const float* const elements = x + row_number * x_row_stride;
  const ArgmaxRow row(elements, static_cast<uint32>(n));
  const uint32 part = blockIdx.y * ctas + rank;
  const uint32 vectors = static_cast<uint32>(part_vectors);
  uint32 skipped = row.skipped;
  uint32 vector = max(part * vectors, row.first) + threadIdx.x;
  uint32 end = min((part + 1) * vectors, row.end);
  uint32 edge = part == 0 ? row.edge_index(threadIdx.x, static_cast<uint32>(n)) : uint32{kNoIndex};
  uint32 alone = gridDim.y == 1 ? 1 : 0;
  const float* from = row.aligned + static_cast<int64>(vector) * 4;
  const float* edge_from = elements + (edge == kNoIndex ? 0u : edge);
  void* to = alone != 0 ? static_cast<void*>(out + row_number)
                        : static_cast<void*>(parts + (row_number * gridDim.y + blockIdx.y));
  pin<PDL>(from);
  pin<PDL>(edge_from);
  pin<PDL>(to);
  pin<PDL>(skipped);
  pin<PDL>(vector);
  pin<PDL>(end);
  pin<PDL>(edge);
  pin<PDL>(alone);
  pin<PDL>(rank);
  pin<PDL>(ctas);
  wait_for_prerequisites<PDL>();
  float edge_value = 0;
  if (edge != kNoIndex)
    edge_value = load_element(edge_from);
  ArgmaxKey best{0, kNoIndex};
  for (; vector < end; vector += kArgmaxBatch * kArgmaxThreads) {
    take_vectors(best, from, skipped, vector, end);
    from += kArgmaxBatch * kArgmaxThreads * 4;
  }
  if (edge != kNoIndex)
    best.take(order_key(__float_as_uint(edge_value)), edge);
  reduce_over_cta(best, shared);
  if (threadIdx.x >= kWarpLanes)
    return;
  if (ctas != 1)
    reduce_over_cluster(best, shared, rank, ctas);
  if (threadIdx.x != 0 || rank != 0)
    return;
  if (alone != 0) {
    store_int64(static_cast<int64*>(to), best.index);
  } else {
    const uint32 words[2] = {best.key, best.index};
    store_8(to, words);
  }
}

// The best of `count` parts of each row.
template <bool PDL>
__global__ void __launch_bounds__(256)
    row_argmax_parts(const ArgmaxKey* parts, int64* out, int64 rows, uint32 count) {
  launch_dependents<PDL>();
  const uint32 lane = threadIdx.x % kWarpLanes;
  const int64 row = (static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarpLanes;
  const ArgmaxKey* from = parts + row * count + lane;
  int64* to = out + row;
  pin<PDL>(from);
  pin<PDL>(to);
  pin<PDL>(count);
  const bool exists = row < rows;
  wait_for_prerequisites<PDL>();
  if (!exists)
    return;
  ArgmaxKey best{0, kNoIndex};
  for (uint32 i = lane; i < count; i += kWarpLanes, from += kWarpLanes) {
    const int64 part = load_int64(reinterpret_cast<const int64*>(from));
    best.take(static_cast<uint32>(part), static_cast<uint32>(part >> 32));
  }
  best.reduce_over_lanes();
  if (lane == 0)
    store_int64(to, best.index);
}

}  // namespace kiln
