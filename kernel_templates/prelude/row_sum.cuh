// The sum over a row of up to 8,192 elements, or of more, in the one order that every norm uses
// (docs/kernel_contracts.md, "Row sums").
// May live here: that order, and how partial sums travel between warps and CTAs. Not what is
// summed.
//
// The order: vectors of 8 consecutive elements; a chain adds a vector's terms one fma after the
// other, from 0. 32 consecutive vectors are a segment; their chains are added in pairs whose
// numbers differ in one bit: 16, 8, 4, 2, 1. The segments, at most 32, are added in pairs in the
// same way; one that the row does not have counts as zero. In a row of more than 8,192 elements, a
// chain goes on with every 1,024th vector. Which warp of which CTA adds up a segment is free.
#pragma once

#include "prelude/cluster.cuh"
#include "prelude/shared.cuh"
#include "prelude/types.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 {
  kVectorsPerSegment = 32,
  kSegments = 32,
  kVectorsPerRow = kVectorsPerSegment * kSegments,  // of a row whose chains are one vector long
};
enum : int { kMaxRowsPerCta = 8 };

__device__ __forceinline__ float add_squares(const float (&values)[8], float chain) {
#pragma unroll
  for (int i = 0; i < 8; ++i)
    chain = __fmaf_rn(values[i], values[i], chain);
  return chain;
}

// In shared memory, segment s lies in slot (s % 8) * 4 + s / 8, so that one 16-byte load brings
// segments j, j + 8, j + 16 and j + 24, which meet in the first two steps.
__device__ __forceinline__ uint32 segment_slot(uint32 segment) {
  return segment % 8 * 4 + segment / 8;
}

// Adds up 32 slots; every lane gets the sum.
__device__ __forceinline__ float sum_segments(uint32 slots, uint32 lane) {
  float parts[4];
  load_shared_4<0>(slots + lane % 8 * 16, parts);
  float sum = __fadd_rn(__fadd_rn(parts[0], parts[2]), __fadd_rn(parts[1], parts[3]));
#pragma unroll
  for (int mask = 4; mask > 0; mask /= 2)
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, mask));
  return sum;
}

// Two buffers that take turns from row to row, so that one barrier for each row is enough: who
// writes a buffer again has passed the barrier of the row between, and with it everyone who read.
template <int CTAS>
struct RowSumStorage {
  alignas(16) float slots[2][CTAS == 1 ? int{kMaxRowsPerCta} : 1][kSegments];
  alignas(8) uint32 barriers[2][2];
};

// Sums one row after the other. CTAS == 1: rows of a CTA of several (threadIdx.y) are summed side
// by side. CTAS > 1: the CTAs of one cluster share each row.
template <int VECTORS, int CTAS>
class RowSum {
 public:
  // Called by all threads. `segments` is the number that the row has, `first_segment` that of the
  // thread's first chain; its chain j belongs to segment first_segment + j * segment_step. With
  // CTAS > 1 the step is the number of warps of the cluster, and all their chains have a slot:
  // segment_step * VECTORS is at most 32.
  __device__ __forceinline__ RowSum(RowSumStorage<CTAS>& storage, uint32 segments,
                                    uint32 first_segment, uint32 segment_step) {
    const uint32 lane = threadIdx.x % kWarpLanes;
    const uint32 row = CTAS == 1 ? threadIdx.y : 0;
    slots_ = shared_address(&storage.slots[0][row][0]);
    if (threadIdx.x < kSegments && threadIdx.x >= segments) {
      store_shared(slots_ + segment_slot(threadIdx.x) * 4, 0.0f);
      store_shared(slots_ + segment_slot(threadIdx.x) * 4 + kBufferBytes, 0.0f);
    }
    // After sum_over_lanes, lane i has the sum of chain i / kLanesPerSum. With clusters, warps
    // whose segments the row does not have send their zeros too: a phase then ends only when every
    // warp has come to it, so that no warp can fall two rows behind. It would find the parity it
    // waits for changed back, and wait forever.
    const uint32 segment = first_segment + lane / kLanesPerSum * segment_step;
    puts_ = (CTAS > 1 || segment < segments) && lane % kLanesPerSum < CTAS;
    put_ = slots_ + segment_slot(segment) * 4;
    if constexpr (CTAS > 1) {
      const uint32 rank = lane % kLanesPerSum;
      barrier_ = shared_address(&storage.barriers[0][0]);
      bytes_ = segment_step * VECTORS * 4;
      put_ = address_in_cta(put_, rank);
      remote_barrier_ = address_in_cta(barrier_, rank);
      if (threadIdx.x == 0) {
        init_byte_barrier(barrier_);
        init_byte_barrier(barrier_ + 8);
      }
      cluster_barrier();
    }
  }

  // Called by all threads with their chains; 0 where the row has none. Every thread gets the sum.
  __device__ __forceinline__ float operator()(const float (&chains)[VECTORS]) {
    const uint32 lane = threadIdx.x % kWarpLanes;
    const uint32 offset = turn_ % 2 * kBufferBytes;
    if constexpr (CTAS == 1) {
      const float sum = sum_over_lanes(chains, lane);
      if (puts_)
        store_shared(put_ + offset, sum);
      __syncthreads();
    } else {
      const uint32 barrier = turn_ % 2 * 8;
      if (threadIdx.x == 0)
        arrive_expecting(barrier_ + barrier, bytes_);
      const float sum = sum_over_lanes(chains, lane);
      if (puts_)
        send(put_ + offset, sum, remote_barrier_ + barrier);
      wait_for_bytes(barrier_ + barrier, turn_ / 2 % 2);
    }
    ++turn_;
    return sum_segments(slots_ + offset, lane);
  }

 private:
  enum : uint32 {
    kLanesPerSum = kWarpLanes / VECTORS,
    kBufferBytes = sizeof(RowSumStorage<CTAS>::slots) / 2,
  };
  static_assert(CTAS <= kWarpLanes / VECTORS);

  uint32 slots_;
  uint32 put_;
  uint32 barrier_ = 0;
  uint32 remote_barrier_ = 0;
  uint32 bytes_ = 0;
  uint32 turn_ = 0;
  bool puts_;
};

// 1 / sqrt(sum / k + eps): IEEE division and addition, then the approximate instruction.
__device__ __forceinline__ float inverse_rms(float sum, float k, float eps) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(__fadd_rn(__fdiv_rn(sum, k), eps)));
  return result;
}

}  // namespace kiln
