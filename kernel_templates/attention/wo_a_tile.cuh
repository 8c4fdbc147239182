// y[m, g, r] = sum over d of x[m, g, d] * w[g, r, d], for a few tokens m: what the CTAs of both
// small batch kernels do up to the sums in fp32. May live here: the order of summation, and how
// outputs and d are spread over CTAs and warps. Not what becomes of the sums.
//
// Order of summation (reference/wo_a.hpp has it too): d is cut into 2 parts, one for each of the
// two CTAs of a tile of outputs, and a part into slices of 128, which the CTA's 4 warps take in
// turn. A warp goes through its slices in steps of 32 elements, has a tensor core add up two times
// 16 of them, each time from 0, and adds what comes out to its sum. The sums of a CTA's warps are
// added in order, then those of the two CTAs.
//
// The time is that of reading the weights once. So a CTA has 64 KiB of them under way before it
// waits for x, and there is room for three on a multiprocessor: some of the next launch's weights
// arrive while this one adds up.
#pragma once

#include "prelude/async_copy.cuh"
#include "prelude/cluster.cuh"
#include "prelude/pdl.cuh"
#include "prelude/shared.cuh"
#include "prelude/tensor_core.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 {
  kParts = 2,         // of d
  kTileOutputs = 16,  // of a CTA
  kTileWarps = 4,
  kTileThreads = kTileWarps * kWarpLanes,
  kSlice = 128,  // elements of d
};

// x: [m, g, d], strided in m and g. w: [g, r, d], constant. d is a multiple of kParts * kSlice, r
// one of a cluster's outputs.
struct WoA {
  const bf16* x;
  int64 x_row_stride;
  int64 x_group_stride;
  const bf16* w;
  uint32 m;
  uint32 r;
  uint32 d;
  bool constants_early;
};

// TOKENS: m rounded up to 8 or 16. TILES: of a cluster, whose CTAs are the parts of all of them.
template <int TOKENS, int TILES>
struct WoATile {
  enum : int {
    kCtas = kParts * TILES,
    kOutputs = kTileOutputs * TILES,  // of the cluster
    kBlock = 8,                       // outputs, or tokens, that a tensor core takes at once
    kBlocks = kTileOutputs / kBlock,
    kTokenBlocks = TOKENS / kBlock,
    kSlices = 4,                  // that a warp has under way
    kTokenSlices = 32 / TOKENS,   // for which it has x at once, in registers
    kSteps = kSlice / 32,         // of a slice
    kRowVectors = kSlice / 8,     // of a slice: 16-byte vectors of a row
    kOwnTokens = TOKENS / kCtas,  // that a CTA has the results of
  };
  static_assert(kOwnTokens * kOutputs <= kTileThreads);
  // Of one warp: the weights under way, a vector of 8 for each lane and step of a block of outputs,
  // and then its sums, whose rows are padded so that store_sums meets no bank twice.
  union Warp {
    uint4 weights[kBlocks][kSlices * kSteps][kWarpLanes];
    float sums[TOKENS][kTileOutputs + 4];
  };
  static_assert(sizeof(Warp) == sizeof(Warp::weights));
  struct Storage {
    // What the cluster's CTAs summed up, of the tokens that this one has the results of.
    alignas(16) float parts[kParts][kOwnTokens][kOutputs];
    alignas(8) uint32 barrier[2];
  };

  // x as a lane takes it: its own vector of each step, of token lane / 4 and every kBlock-th after.
  struct Tokens {
    const bf16* x;  // at the lane's vector of the part's first step
    int64 next;     // from one block of tokens to the next
    uint32 m;

    __device__ __forceinline__ void load(uint32 slice, uint32 lane,
                                         uint32 (&values)[kSteps][kTokenBlocks][4]) const {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int block = 0; block < kTokenBlocks; ++block) {
          if (lane / 4 + block * kBlock < m)
            load_16<0>(x + (block * next + slice * kSlice + step * 32), values[step][block]);
        }
      }
    }
  };

  static __device__ __forceinline__ uint32 rank() {
    return blockIdx.x % kCtas;
  }
  // The cluster's first output (g, r).
  static __device__ __forceinline__ uint32 first_output() {
    return blockIdx.x / kCtas * kOutputs;
  }
  // The token and the cluster's output whose result this thread has. From TOKENS on: none.
  static __device__ __forceinline__ uint32 own_token() {
    return threadIdx.x / kOutputs * kCtas + rank();
  }
  static __device__ __forceinline__ uint32 own_output() {
    return threadIdx.x % kOutputs;
  }

  // Called by all threads, once. `warps`: one Warp for each, dynamic shared memory. PDL: waits,
  // with weights under way, and calls `meanwhile` later, when there is nothing else to do. Returns
  // the sum of own_token() and own_output(), if that token is below m; else anything.
  template <bool PDL, class Meanwhile>
  static __device__ __forceinline__ float compute(const WoA& problem, Warp* warps, Storage& storage,
                                                  const Meanwhile& meanwhile) {
    const uint32 lane = threadIdx.x % kWarpLanes;
    const uint32 warp = threadIdx.x / kWarpLanes;
    const uint32 part = rank() % kParts;
    const uint32 tile = rank() / kParts;
    const uint32 first = first_output() + tile * kTileOutputs;
    const uint32 part_length = problem.d / kParts;
    // What is needed after the wait is worked out before it: every parameter would have to be
    // fetched then.
    uint32 slices = part_length / kSlice;
    Tokens tokens{problem.x + (first / problem.r * problem.x_group_stride +
                               lane / 4 * problem.x_row_stride + part * part_length + lane % 4 * 8),
                  kBlock * problem.x_row_stride, problem.m};
    const bf16* const w = problem.w + (static_cast<int64>(first) * problem.d + part * part_length);
    const bool early = !PDL || problem.constants_early;
    // Before any copy: making the barrier ends in a fence, which would wait for copies under way.
    expect_sums(storage, problem.m);
    float sums[kBlocks][2 * kTokenBlocks] = {};
    uint32 slice = warp;
#pragma unroll 1
    do {
      if (!early)
        wait_for_prerequisites<PDL>();
#pragma unroll
      for (int i = 0; i < kSlices; ++i) {
        if (slice + i * kTileWarps < slices)
          copy_weights(w + (slice + i * kTileWarps) * kSlice, problem.d, warps[warp], i, lane);
        end_copy_group();
      }
      // What the wait would delay; in this order, for the weights are waited for longest.
      pin<PDL>(slices);
      pin<PDL>(tokens.x);
      pin<PDL>(tokens.m);
      if (slice == warp)
        cluster_barrier();  // All barriers are made, and all CTAs there to be sent sums.
      wait_for_prerequisites<PDL>();

      add_slices<0>(warps[warp], tokens, slice, slices, lane, sums);
      __syncwarp();  // The next weights, or the sums, come to where other lanes' weights were.
      slice += kSlices * kTileWarps;
    } while (slice < slices);

    store_sums(warps[warp], sums, lane);
    __syncthreads();
    send_sums(warps, storage, tokens.m, part, tile);
    meanwhile();
    return received_sum(storage, tokens.m);
  }

 private:
  // Makes the barrier, at which the sums of this CTA's tokens will be counted.
  static __device__ __forceinline__ void expect_sums(const Storage& storage, uint32 m) {
    if (threadIdx.x == 0) {
      const uint32 barrier = shared_address(storage.barrier);
      init_byte_barrier(barrier);
      if (rank() < m) {
        const uint32 count = (m - rank() + kCtas - 1) / kCtas;
        arrive_expecting(barrier, count * (kParts * kOutputs * sizeof(float)));
      }
    }
  }

  static __device__ __forceinline__ float received_sum(const Storage& storage, uint32 m) {
    const uint32 token = own_token();
    float sum = 0.0f;
    if (token < m) {
      wait_for_bytes(shared_address(storage.barrier), 0);
      const uint32 output = own_output();
      sum = storage.parts[0][token / kCtas][output];
#pragma unroll
      for (uint32 part = 1; part < kParts; ++part)
        sum = __fadd_rn(sum, storage.parts[part][token / kCtas][output]);
    }
    return sum;
  }

  // Where lane `lane` finds its vector of a step. Swizzled, so that the lanes that copy a row,
  // whose vectors go to several steps, meet no bank twice.
  static __device__ __forceinline__ uint32 place(uint32 step, uint32 lane) {
    return lane ^ (step % 2 * 4);
  }

  // All lanes together copy slice `number` of those under way; w is where the first row's begins.
  static __device__ __forceinline__ void copy_weights(const bf16* w, uint32 d, Warp& warp,
                                                      uint32 number, uint32 lane) {
    constexpr uint32 kRows = kWarpLanes / kRowVectors;  // at once
    constexpr uint32 kTimes = kBlock / kRows;           // for a block
    constexpr uint32 kBlockBytes = sizeof(Warp::weights) / kBlocks;
    const uint32 row = lane / kRowVectors;
    const uint32 vector = lane % kRowVectors;
    const uint32 step = vector / 4;
    const uint32 to =
        shared_address(&warp.weights[0][number * kSteps + step][place(step, row * 4 + vector % 4)]);
    const bf16* from = w + (static_cast<int64>(row) * d + vector * 8);
#pragma unroll
    for (uint32 i = 0; i < kTileOutputs / kRows; ++i) {
      copy_16_async(to + (i / kTimes * kBlockBytes + i % kTimes * (kRows * 4 * 16)), from);
      from += kRows * static_cast<int64>(d);
    }
  }

  // Slices FIRST, FIRST + 1, ... of those under way, each as soon as it is there.
  template <int FIRST>
  static __device__ __forceinline__ void add_slices(const Warp& warp, const Tokens& tokens,
                                                    uint32 slice, uint32 slices, uint32 lane,
                                                    float (&sums)[kBlocks][2 * kTokenBlocks]) {
    uint32 values[kTokenSlices][kSteps][kTokenBlocks][4] = {};
#pragma unroll
    for (int i = 0; i < kTokenSlices; ++i) {
      const uint32 number = slice + (FIRST + i) * kTileWarps;
      if (number < slices)
        tokens.load(number, lane, values[i]);
    }
    wait_and_add<FIRST, 0>(warp, values, slice, slices, lane, sums);
    if constexpr (FIRST + kTokenSlices < kSlices)
      add_slices<FIRST + kTokenSlices>(warp, tokens, slice, slices, lane, sums);
  }

  template <int FIRST, int NUMBER>
  static __device__ __forceinline__ void wait_and_add(
      const Warp& warp, const uint32 (&tokens)[kTokenSlices][kSteps][kTokenBlocks][4], uint32 slice,
      uint32 slices, uint32 lane, float (&sums)[kBlocks][2 * kTokenBlocks]) {
    wait_for_copy_groups<kSlices - 1 - FIRST - NUMBER>();
    if (slice + (FIRST + NUMBER) * kTileWarps < slices)
      add_slice(warp, FIRST + NUMBER, tokens[NUMBER], lane, sums);
    if constexpr (NUMBER + 1 < kTokenSlices)
      wait_and_add<FIRST, NUMBER + 1>(warp, tokens, slice, slices, lane, sums);
  }

  static __device__ __forceinline__ void add_slice(const Warp& warp, int number,
                                                   const uint32 (&tokens)[kSteps][kTokenBlocks][4],
                                                   uint32 lane,
                                                   float (&sums)[kBlocks][2 * kTokenBlocks]) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      __syncwarp();  // For what other lanes copied, and to keep the loads of later steps later.
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const uint4 vector = warp.weights[block][number * kSteps + step][place(step, lane)];
        const uint32 weights[4] = {vector.x, vector.y, vector.z, vector.w};
        // As operand `a`, a lane's vector is words 0 and 2 of one row and words 1 and 3 of another.
        // With the same words of x as `b`, one of the two sums up this output's, the other nothing
        // of use.
#pragma unroll
        for (int k = 0; k < kTokenBlocks; ++k) {
          const uint32(&x)[4] = tokens[step][k];
          float even[4];
          float odd[4];
          tensor_core_sums(weights, x[0], x[2], even);
          tensor_core_sums(weights, x[1], x[3], odd);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& sum = sums[block][2 * k + i];
            sum = __fadd_rn(__fadd_rn(sum, even[i]), odd[2 + i]);
          }
        }
      }
    }
  }

  static __device__ __forceinline__ void store_sums(Warp& warp,
                                                    const float (&sums)[kBlocks][2 * kTokenBlocks],
                                                    uint32 lane) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < 2 * kTokenBlocks; ++i) {
        const uint32 token = i / 2 * kBlock + lane % 4 * 2 + i % 2;
        warp.sums[token][block * kBlock + lane / 4] = sums[block][i];
      }
    }
  }

  // Adds up this CTA's warps and sends each sum to the CTA that has the token.
  static __device__ __forceinline__ void send_sums(const Warp* warps, const Storage& storage,
                                                   uint32 m, uint32 part, uint32 tile) {
    const uint32 output = threadIdx.x % kTileOutputs;
#pragma unroll
    for (uint32 token = threadIdx.x / kTileOutputs; token < TOKENS;
         token += kTileThreads / kTileOutputs) {
      if (token < m) {
        float sum = warps[0].sums[token][output];
#pragma unroll
        for (uint32 i = 1; i < kTileWarps; ++i)
          sum = __fadd_rn(sum, warps[i].sums[token][output]);
        const uint32 to = token % kCtas;
        const float* const slot = &storage.parts[part][token / kCtas][tile * kTileOutputs + output];
        send(address_in_cta(shared_address(slot), to), sum,
             address_in_cta(shared_address(storage.barrier), to));
      }
    }
  }
};

}  // namespace kiln
