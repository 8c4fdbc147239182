// The index of the largest element of each row of fp32: the lowest one among equals, or that of the
// first NaN.
// May live here: the two kernels of this op.
//
// CTAs that share a row leave the best of their parts in a workspace, from which a warp of the
// second kernel takes the row's. A row of one part needs no second kernel. Which of two elements
// wins depends on these two alone, so no bit depends on how a row is spread. Launch of the first:
// block (kArgmaxThreads), grid (rows, parts); of the second: block (a multiple of 32), a warp for
// each row.
#pragma once

#include "prelude/float_order.cuh"
#include "prelude/global.cuh"
#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 { kArgmaxThreads = 256, kArgmaxBatch = 8, kNoIndex = 0xffffffffu };

// The larger value; a NaN is larger than any number.
__device__ __forceinline__ float max_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

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

// What a thread has seen of a row, in ascending order.
struct ArgmaxSeen {
  float best;
  uint32 where;  // The vector that has it.

  // Loads COUNT vectors, all under way at once, from number `vector` on.
  template <uint32 COUNT>
  __device__ __forceinline__ void take(const ArgmaxRow& row, uint32 vector) {
    uint32 words[COUNT][4];
#pragma unroll
    for (uint32 j = 0; j < COUNT; ++j)
      load_16<0>(row.aligned + static_cast<int64>(vector + j * kArgmaxThreads) * 4, words[j]);
#pragma unroll
    for (uint32 j = 0; j < COUNT; ++j) {
      const float most =
          max_or_nan(max_or_nan(__uint_as_float(words[j][0]), __uint_as_float(words[j][1])),
                     max_or_nan(__uint_as_float(words[j][2]), __uint_as_float(words[j][3])));
      // Greater, or the first NaN.
      const bool better = !(most <= best) && best == best;
      best = better ? most : best;
      where = better ? vector + j * kArgmaxThreads : where;
    }
  }
};

// The best of this thread's vectors of [begin, end), threads one vector apart.
__device__ __forceinline__ ArgmaxKey best_of_vectors(const ArgmaxRow& row, uint32 begin,
                                                     uint32 end) {
  uint32 vector = begin + threadIdx.x;
  if (vector >= end)
    return {0, kNoIndex};
  ArgmaxSeen seen{__uint_as_float(kNegativeInfinity), vector};
  const uint32 count = (end - vector - 1) / kArgmaxThreads + 1;
  uint32 left = count;
  for (; left >= kArgmaxBatch; left -= kArgmaxBatch, vector += kArgmaxBatch * kArgmaxThreads)
    seen.take<kArgmaxBatch>(row, vector);
  if (left >= 4) {
    seen.take<4>(row, vector);
    left -= 4;
    vector += 4 * kArgmaxThreads;
  }
  if (left >= 2) {
    seen.take<2>(row, vector);
    left -= 2;
    vector += 2 * kArgmaxThreads;
  }
  if (left != 0)
    seen.take<1>(row, vector);
  // Once more the vector that has it, for the element.
  uint32 words[4];
  load_16<0>(row.aligned + static_cast<int64>(seen.where) * 4, words);
  const uint32 key = order_key(__float_as_uint(seen.best));
  uint32 element = 0;
#pragma unroll
  for (uint32 i = 4; i-- > 0;)
    element = order_key(words[i]) == key ? i : element;
  return {key, row.index(seen.where) + element};
}

// Four CTAs of a multiprocessor: with the registers that the compiler would take by itself, it
// would wait for some loads before it starts others.
//
// x: rows of n >= 1 elements, x_row_stride elements apart. parts: [rows, gridDim.y]. out: [rows],
// which a row of one part is written to. A part is of part_vectors vectors.
template <bool PDL>
__global__ void __launch_bounds__(kArgmaxThreads, 4)
    row_argmax(const float* x, int64 x_row_stride, ArgmaxKey* parts, int64* out, int n,
               int part_vectors) {
  __shared__ ArgmaxKey winners[kArgmaxThreads / kWarpLanes];
  launch_dependents<PDL>();
  const uint32 lane = threadIdx.x % kWarpLanes;
  const int64 row_number = blockIdx.x;
  const float* const elements = x + row_number * x_row_stride;
  const ArgmaxRow row(elements, static_cast<uint32>(n));
  const uint32 begin = max(blockIdx.y * static_cast<uint32>(part_vectors), row.first);
  const uint32 end = min((blockIdx.y + 1) * static_cast<uint32>(part_vectors), row.end);
  const uint32 edge =
      blockIdx.y == 0 ? row.edge_index(threadIdx.x, static_cast<uint32>(n)) : uint32{kNoIndex};
  wait_for_prerequisites<PDL>();
  float edge_value = 0;
  if (edge != kNoIndex)
    edge_value = load_element(elements + edge);
  ArgmaxKey best = best_of_vectors(row, begin, end);
  if (edge != kNoIndex)
    best.take(order_key(__float_as_uint(edge_value)), edge);
  best.reduce_over_lanes();
  if (lane == 0)
    winners[threadIdx.x / kWarpLanes] = best;
  __syncthreads();
  if (threadIdx.x >= kWarpLanes)
    return;
  best = {0, kNoIndex};
  if (lane < kArgmaxThreads / kWarpLanes)
    best = winners[lane];
  best.reduce_over_lanes();
  if (lane != 0)
    return;
  if (gridDim.y == 1) {
    store_int64(out + row_number, best.index);
  } else {
    const uint32 words[2] = {best.key, best.index};
    store_8(parts + (row_number * gridDim.y + blockIdx.y), words);
  }
}

// The best of `count` parts of each row.
template <bool PDL>
__global__ void __launch_bounds__(256)
    row_argmax_parts(const ArgmaxKey* parts, int64* out, int64 rows, int count) {
  launch_dependents<PDL>();
  const uint32 lane = threadIdx.x % kWarpLanes;
  const int64 row = (static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarpLanes;
  wait_for_prerequisites<PDL>();
  if (row >= rows)
    return;
  const ArgmaxKey* const from = parts + row * count;
  ArgmaxKey best{0, kNoIndex};
  for (uint32 i = lane; i < static_cast<uint32>(count); i += kWarpLanes) {
    const int64 part = load_int64(reinterpret_cast<const int64*>(from + i));
    best.take(static_cast<uint32>(part), static_cast<uint32>(part >> 32));
  }
  best.reduce_over_lanes();
  if (lane == 0)
    store_int64(out + row, best.index);
}

}  // namespace kiln
