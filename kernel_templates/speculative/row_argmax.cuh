// The index of the largest element of each row of fp32: the lowest one among equals, or that of the
// first NaN.
// May live here: this kernel alone.
//
// The CTAs of a cluster share a row. Which of two elements wins depends on these two alone, so no
// bit of the result depends on how a row is spread over threads and CTAs. Launch: cluster (CTAs
// that share a row, at most 8), grid (rows * that), block (a multiple of 32), no dynamic shared
// memory.
#pragma once

#include "prelude/cluster.cuh"
#include "prelude/global.cuh"
#include "prelude/pdl.cuh"
#include "prelude/shared.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 { kNoIndex = 0xffffffffu };

__device__ __forceinline__ float negative_infinity() {
  return __uint_as_float(0xff800000u);
}

// The larger value; a NaN is larger than any number.
__device__ __forceinline__ float max_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// Orders values as the op does: equal for -0 and +0, the same and the largest for all NaN.
__device__ __forceinline__ uint32 order_key(float value) {
  const uint32 bits = __float_as_uint(__fadd_rn(value, 0.0f));  // -0 + 0 is +0.
  const uint32 flips = static_cast<uint32>(static_cast<int>(bits) >> 31) | 0x80000000u;
  return value == value ? bits ^ flips : 0xffffffffu;
}

template <int WORDS>
__device__ __forceinline__ void load_widest(const void* address, uint32 (&words)[WORDS]) {
  if constexpr (WORDS == 8) {
    load_32(address, words);
  } else {
    load_16<0>(address, words);
  }
}

// A row as this thread reads it: whole vectors between aligned addresses, of which the thread takes
// number `first`, `first + threads`, ... below `end`. Elements before the first whole vector and
// after the last one are taken one by one, by one thread each (edge_index).
struct ArgmaxRow {
  enum : uint32 {
    kElements = int{kVectorElements} / 2,  // of a vector of fp32
    kVectors = 16 / kElements,             // loaded together
  };
  struct Batch {
    uint32 words[kVectors][kElements];
  };

  const float* aligned;  // the first element's address rounded down to a vector's boundary
  uint32 skipped;        // elements from there to the first
  uint32 n;
  uint32 threads;
  uint32 first;
  uint32 end;

  __device__ __forceinline__ ArgmaxRow(const float* row, uint32 length, uint32 thread,
                                       uint32 thread_count)
      : n(length), threads(thread_count) {
    skipped = static_cast<uint32>(reinterpret_cast<unsigned long long>(row) / 4 % kElements);
    aligned = row - skipped;
    first = (skipped != 0 ? 1 : 0) + thread;
    end = (skipped + n) / kElements;
  }

  __device__ __forceinline__ uint32 index(uint32 vector) const {
    return vector * kElements - skipped;
  }

  // Of thread number `thread`: the element that it takes by itself, or kNoIndex.
  __device__ __forceinline__ uint32 edge_index(uint32 thread) const {
    if (thread < kElements)
      return thread < (kElements - skipped) % kElements && thread < n ? thread : kNoIndex;
    const uint32 element = index(end) + thread - kElements;
    return thread < 2 * kElements && element < n ? element : kNoIndex;
  }

  // The thread's vectors from number `vector` on; past the end, -inf, which never wins.
  __device__ __forceinline__ void load(uint32 vector, Batch& batch) const {
#pragma unroll
    for (uint32 k = 0; k < kVectors; ++k) {
      const uint32 number = vector + k * threads;
      if (number < end) {
        load_widest(aligned + static_cast<int64>(number) * kElements, batch.words[k]);
      } else {
#pragma unroll
        for (uint32& word : batch.words[k])
          word = 0xff800000u;
      }
    }
  }
};

// The winner among what one thread has seen. Indices come in ascending order, so that of equals the
// first one stays.
struct ArgmaxWinner {
  float value;
  uint32 index;

  __device__ __forceinline__ void take(const ArgmaxRow& row, uint32 vector,
                                       const ArgmaxRow::Batch& batch) {
    constexpr int kElements = ArgmaxRow::kElements;
    constexpr int kCount = ArgmaxRow::kVectors * kElements;
    float values[kCount];
    float most[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = __uint_as_float(batch.words[i / kElements][i % kElements]);
      most[i] = values[i];
    }
#pragma unroll
    for (int width = kCount / 2; width > 0; width /= 2) {
#pragma unroll
      for (int i = 0; i < width; ++i)
        most[i] = max_or_nan(most[i], most[i + width]);
    }
    // Whether it is a NaN or greater, and no NaN came before.
    if (most[0] <= value || value != value)
      return;
    value = most[0];
    const bool number = value == value;
    uint32 found = 0;
#pragma unroll
    for (int i = kCount - 1; i >= 0; --i) {
      if (number ? values[i] == value : values[i] != values[i])
        found = i;
    }
    index = row.index(vector + found / kElements * row.threads) + found % kElements;
  }
};

// A winner as warps and CTAs pass it on.
struct ArgmaxKey {
  uint32 key;
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

// x: rows of n >= 1 elements, x_row_stride elements apart, aligned to 4 bytes. out: [rows].
template <bool PDL>
__global__ void __launch_bounds__(1024, 1)
    row_argmax(const float* x, int64 x_row_stride, int64* out, int n) {
  constexpr uint32 kSlots = 8 * 32;  // warps of a cluster at most
  __shared__ alignas(8) float slots[kSlots][2];
  __shared__ alignas(8) uint32 barrier_storage[2];

  launch_dependents<PDL>();
  uint32 ctas;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(ctas));
  const uint32 rank = blockIdx.x % ctas;
  const uint32 row = blockIdx.x / ctas;
  const uint32 warps = blockDim.x / kWarpLanes;
  const uint32 lane = threadIdx.x % kWarpLanes;
  const uint32 thread = rank * blockDim.x + threadIdx.x;
  // All warps of the cluster send their winner to the first CTA. Key and index are bits that travel
  // as floats.
  const uint32 barrier = shared_address(barrier_storage);
  const uint32 slot = rank * warps + threadIdx.x / kWarpLanes;
  const uint32 put = address_in_cta(shared_address(&slots[slot][lane % 2]), 0);
  const uint32 put_barrier = address_in_cta(barrier, 0);
  if (thread == 0) {
    init_byte_barrier(barrier);
    arrive_expecting(barrier, ctas * warps * 8);
  }
  cluster_barrier();
  const ArgmaxRow source(x + row * x_row_stride, static_cast<uint32>(n), thread, blockDim.x * ctas);
  const uint32 edge = source.edge_index(thread);
  const uint32 step = ArgmaxRow::kVectors * source.threads;
  wait_for_prerequisites<PDL>();

  // Two batches, one under way while the other is looked at.
  uint32 vector = source.first;
  ArgmaxRow::Batch even;
  ArgmaxRow::Batch odd;
  float edge_value = negative_infinity();
  source.load(vector, even);
  source.load(vector + step, odd);
  if (edge != kNoIndex)
    edge_value = load_element(x + (row * x_row_stride + edge));
  ArgmaxWinner winner{negative_infinity(),
                      vector < source.end ? source.index(vector) : uint32{kNoIndex}};
  while (true) {
    const bool more = vector + 2 * step < source.end;
    winner.take(source, vector, even);
    if (more)
      source.load(vector + 2 * step, even);
    winner.take(source, vector + step, odd);
    if (!more)
      break;
    source.load(vector + 3 * step, odd);
    vector += 2 * step;
  }

  ArgmaxKey best{order_key(winner.value), winner.index};
  best.take(order_key(edge_value), edge);
  best.reduce_over_lanes();
  if (lane < 2)
    send(put, __uint_as_float(lane == 0 ? best.key : best.index), put_barrier);
  if (rank != 0 || threadIdx.x >= kWarpLanes)
    return;

  wait_for_bytes(barrier, 0);
  ArgmaxKey total{0, kNoIndex};
  for (uint32 i = lane; i < ctas * warps; i += kWarpLanes) {
    float pair[2];
    load_shared_2<0>(shared_address(slots[i]), pair);
    total.take(__float_as_uint(pair[0]), __float_as_uint(pair[1]));
  }
  total.reduce_over_lanes();
  if (lane == 0) {
    const uint32 words[2] = {total.index, 0};
    store_8(out + row, words);
  }
}

}  // namespace kiln
