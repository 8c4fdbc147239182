// y[m, g, r] = sum over d of x[m, g, d] * w[g, r, d], for a few tokens m: what the CTAs of both
// small batch kernels do up to the sums in fp32. May live here: the order of summation, and how
// outputs and d are spread over CTAs and warps. Not what becomes of the sums.
//
// Order of summation (reference/wo_a.hpp has it too): d is cut into 2 parts, one for each of the
// two CTAs of a tile of outputs, and a part into slices of 128, which the CTA's 8 warps take in
// turn. A warp goes through its slices in steps of 32 elements, has a tensor core add up two times
// 16 of them, each time from 0, and adds what comes out to its sum. The sums of a CTA's warps are
// added in order, then those of the two CTAs.
//
// The time is that of reading the weights once. So a CTA has 128 KiB of them under way before it
// waits for x, a quarter of it to registers: a multiprocessor then has room for a CTA of this
// launch and one of the next, all of whose weights are under way while this one adds up (of at most
// 8 tokens, see kResident).
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
  kParts = 2,  // of d; the CTAs of a cluster
  kTileOutputs = 32,
  kTileWarps = 8,
  kTileThreads = kTileWarps * kWarpLanes,
  kSlice = 128,  // elements of d
};

// x: [m, g, d], strided in m and g. w: [g, r, d], constant. d is a multiple of kParts * kSlice, r
// one of kTileOutputs.
struct WoA {
  __device__ __forceinline__ WoA(const bf16* x, int64 x_row_stride, int64 x_group_stride,
                                 const bf16* w, int m, int r, int d, bool constants_early)
      : x(x),
        x_row_stride(x_row_stride),
        x_group_stride(x_group_stride),
        w(w),
        m(static_cast<uint32>(m)),
        r(static_cast<uint32>(r)),
        d(static_cast<uint32>(d)),
        constants_early(constants_early) {}

  const bf16* x;
  int64 x_row_stride;
  int64 x_group_stride;
  const bf16* w;
  uint32 m;
  uint32 r;
  uint32 d;
  bool constants_early;
};

// TOKENS: m rounded up to 8 or 16.
template <int TOKENS>
struct WoATile {
  enum : int {
    kBlock = 8,  // tokens that a tensor core takes at once
    kTokenBlocks = TOKENS / kBlock,
    kRows = 16,  // outputs that a tensor core takes at once
    kRowBlocks = kTileOutputs / kRows,
    kSlices = 2,                    // that a warp has under way
    kUnits = kSlices * kRowBlocks,  // kRows of a slice
    kHeld = 1,                      // units in registers; they come first
    kCopied = kUnits - kHeld,       // to shared memory
    kAhead = TOKENS == 8 ? 2 : 1,   // slices for which a warp has x under way
    kSteps = kSlice / 32,           // of a slice
    kRowVectors = kSlice / 8,       // of a slice: 16-byte vectors of a row
    kOwnTokens = TOKENS / kParts,   // that a CTA has the results of
    // CTAs of a multiprocessor: of this launch and the next. The accumulators of 16 tokens leave no
    // registers for two.
    kResident = TOKENS == 8 ? 2 : 1,
  };
  // Of one warp: the weights under way to shared memory, and then its sums, whose rows are padded
  // so that store_sums meets no bank twice.
  union Warp {
    uint4 weights[kCopied][kRows][kRowVectors];
    float sums[TOKENS][kTileOutputs + 4];
  };
  static_assert(sizeof(Warp) == sizeof(Warp::weights));
  struct Storage {
    // What the two CTAs summed up, of the tokens that this one has the results of.
    alignas(16) float parts[kParts][kOwnTokens][kTileOutputs];
    alignas(8) uint32 barrier[2];
  };

  // x as a lane takes it: its own vector of each step, of token lane / 4 and every kBlock-th after.
  struct Tokens {
    const bf16* x;  // at the lane's vector of the part's first step
    int64 next;     // from one block of tokens to the next
    uint32 m;
  };

  static __device__ __forceinline__ uint32 rank() { return blockIdx.x % kParts; }
  // The cluster's first output (g, r).
  static __device__ __forceinline__ uint32 first_output() {
    return blockIdx.x / kParts * kTileOutputs;
  }
  // The token and the cluster's output whose result this thread has. From TOKENS on: none.
  static __device__ __forceinline__ uint32 own_token() {
    return threadIdx.x / kTileOutputs * kParts + rank();
  }
  static __device__ __forceinline__ uint32 own_output() { return threadIdx.x % kTileOutputs; }

  // Called by all threads, once. `warps`: one Warp for each, dynamic shared memory. PDL: waits,
  // with weights under way, and calls `meanwhile` later, when there is nothing else to do. Returns
  // the sum of own_token() and own_output(), if that token is below m; else anything.
  template <bool PDL, class Meanwhile>
  static __device__ __forceinline__ float compute(const WoA& problem, Warp* warps, Storage& storage,
                                                  const Meanwhile& meanwhile) {
    const uint32 lane = threadIdx.x % kWarpLanes;
    const uint32 warp = threadIdx.x / kWarpLanes;
    const uint32 part_length = problem.d / kParts;
    const uint32 from = rank() * part_length;
    // What is needed after the wait is worked out before it: every parameter would have to be
    // fetched then.
    Tokens tokens{problem.x + (first_output() / problem.r * problem.x_group_stride +
                               lane / 4 * problem.x_row_stride + from + lane % 4 * 8),
                  kBlock * problem.x_row_stride, problem.m};
    const bf16* const w = problem.w + (static_cast<int64>(first_output()) * problem.d + from);
    const bool early = !PDL || problem.constants_early;
    expect_sums(storage, problem.m);
    // Waited for where sums are sent. Nothing that releases memory: it would wait for loads.
    arrive_at_cluster_barrier();
    float sums[kRowBlocks][kTokenBlocks][4] = {};
    Slices under_way = {warp, part_length / kSlice};

#pragma unroll 1
    do {
      if (!early)
        wait_for_prerequisites<PDL>();
      fetch(w, problem.d, warps[warp], under_way, lane);
      // What the wait would delay; in this order, for the weights are waited for longest.
      pin<PDL>(under_way.count);
      pin<PDL>(tokens.x);
      pin<PDL>(tokens.m);
      wait_for_prerequisites<PDL>();
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
        load_tokens(tokens, under_way, i, lane);
      add_units<0>(warps[warp], tokens, under_way, lane, sums);
      __syncwarp();  // The next weights, or the sums, come to where other lanes' weights were.
      under_way.first += kSlices * kTileWarps;
    } while (under_way.first < under_way.count);

    store_sums(warps[warp], sums, lane);
    __syncthreads();
    wait_at_cluster_barrier();  // All CTAs are there to be sent sums, and their barriers made.
    send_sums(warps, storage, tokens.m);
    meanwhile();
    return received_sum(storage, tokens.m);
  }

 private:
  // Makes the barrier, at which the sums of this CTA's tokens will be counted. Warps leave it
  // whole, as the cluster's barrier wants them.
  static __device__ __forceinline__ void expect_sums(const Storage& storage, uint32 m) {
    if (threadIdx.x == 0) {
      const uint32 barrier = shared_address(storage.barrier);
      init_byte_barrier(barrier);
      if (rank() < m) {
        const uint32 count = (m - rank() + kParts - 1) / kParts;
        arrive_expecting(barrier, count * (kParts * kTileOutputs * sizeof(float)));
      }
    }
    __syncwarp();
  }

  static __device__ __forceinline__ float received_sum(const Storage& storage, uint32 m) {
    const uint32 token = own_token();
    float sum = 0.0f;
    if (token < m) {
      wait_for_bytes(shared_address(storage.barrier), 0);
      const uint32 output = own_output();
      sum = storage.parts[0][token / kParts][output];
#pragma unroll
      for (uint32 part = 1; part < kParts; ++part)
        sum = __fadd_rn(sum, storage.parts[part][token / kParts][output]);
    }
    return sum;
  }

  // What a warp has under way, of its slices first, first + kTileWarps, ... < count.
  struct Slices {
    uint32 first;
    uint32 count;  // of the part
    // Vectors of a lane, of each step: of rows lane / 4 and lane / 4 + 8; and of its tokens.
    uint32 weights[kHeld][kSteps][2][4];
    uint32 tokens[kSlices][kSteps][kTokenBlocks][4];

    __device__ __forceinline__ uint32 slice(int number) const {
      return first + number * kTileWarps;
    }
    __device__ __forceinline__ bool has(int number) const { return slice(number) < count; }
  };

  // w: where the part of the tile's first row begins.
  static __device__ __forceinline__ void fetch(const bf16* w, uint32 d, Warp& warp, Slices& slices,
                                               uint32 lane) {
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const int number = unit / kRowBlocks;
      const bf16* const rows =
          w + (unit % kRowBlocks * kRows * static_cast<int64>(d) + slices.slice(number) * kSlice);
      if (slices.has(number)) {
        if (unit < kHeld) {
          load_weights(rows, d, slices.weights[unit], lane);
        } else {
          copy_weights(rows, d, warp.weights[unit - kHeld], lane);
        }
      }
      if (unit >= kHeld)
        end_copy_group();
    }
  }

  // A unit; w is where its first row begins.
  static __device__ __forceinline__ void load_weights(const bf16* w, uint32 d,
                                                      uint32 (&weights)[kSteps][2][4],
                                                      uint32 lane) {
    const bf16* from = w + (static_cast<int64>(lane / 4) * d + lane % 4 * 8);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        load_16<0>(from + step * 32, weights[step][half]);
      from += kRows / 2 * static_cast<int64>(d);
    }
  }

  // Where a row of a unit has a vector. Lanes that copy rows fill whole lines of banks; those that
  // read a step's 4 vectors of two rows find them in different banks.
  static __device__ __forceinline__ uint32 place(uint32 row, uint32 vector) {
    return vector ^ (row % 2 * 4);
  }

  // All lanes together copy a unit; w is where its first row begins.
  static __device__ __forceinline__ void copy_weights(const bf16* w, uint32 d,
                                                      uint4 (&unit)[kRows][kRowVectors],
                                                      uint32 lane) {
    constexpr uint32 kAtOnce = kWarpLanes / kRowVectors;  // rows
    static_assert(kAtOnce == 2);
    const uint32 row = lane / kRowVectors;
    const uint32 vector = lane % kRowVectors;
    const uint32 to = shared_address(&unit[row][place(row, vector)]);
    const bf16* from = w + (static_cast<int64>(row) * d + vector * 8);
#pragma unroll
    for (uint32 i = 0; i < kRows / kAtOnce; ++i) {
      copy_16_async(to + i * (kAtOnce * kRowVectors * 16), from);
      from += kAtOnce * static_cast<int64>(d);
    }
  }

  static __device__ __forceinline__ void load_tokens(const Tokens& tokens, Slices& slices,
                                                     int number, uint32 lane) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int block = 0; block < kTokenBlocks; ++block) {
        uint32(&vector)[4] = slices.tokens[number][step][block];
        vector[0] = vector[1] = vector[2] = vector[3] = 0;
        if (lane / 4 + block * kBlock < tokens.m && slices.has(number))
          load_16<0>(tokens.x + (block * tokens.next + slices.slice(number) * kSlice + step * 32),
                     vector);
      }
    }
  }

  // Units UNIT, UNIT + 1, ... of those under way, each as soon as it is there.
  template <int UNIT>
  static __device__ __forceinline__ void add_units(const Warp& warp, const Tokens& tokens,
                                                   Slices& slices, uint32 lane,
                                                   float (&sums)[kRowBlocks][kTokenBlocks][4]) {
    constexpr int kNumber = UNIT / kRowBlocks;
    float(&unit_sums)[kTokenBlocks][4] = sums[UNIT % kRowBlocks];
    if constexpr (UNIT < kHeld) {
      if (slices.has(kNumber)) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
          add_step(slices.weights[UNIT][step], slices.tokens[kNumber][step], unit_sums);
      }
    } else {
      wait_for_copy_groups<kUnits - 1 - UNIT>();
      __syncwarp();  // For what other lanes copied.
      if (slices.has(kNumber))
        add_copied(warp.weights[UNIT - kHeld], slices.tokens[kNumber], lane, unit_sums);
    }
    if constexpr ((UNIT + 1) % kRowBlocks == 0 && kNumber + kAhead < kSlices)
      load_tokens(tokens, slices, kNumber + kAhead, lane);
    if constexpr (UNIT + 1 < kUnits)
      add_units<UNIT + 1>(warp, tokens, slices, lane, sums);
  }

  static __device__ __forceinline__ void add_copied(const uint4 (&unit)[kRows][kRowVectors],
                                                    const uint32 (&tokens)[kSteps][kTokenBlocks][4],
                                                    uint32 lane, float (&sums)[kTokenBlocks][4]) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      __syncwarp();  // Keeps the loads of later steps later: there are no registers for more.
      uint32 weights[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32 row = half * (kRows / 2) + lane / 4;
        const uint4 vector = unit[row][place(row, step * 4 + lane % 4)];
        weights[half][0] = vector.x;
        weights[half][1] = vector.y;
        weights[half][2] = vector.z;
        weights[half][3] = vector.w;
      }
      add_step(weights, tokens[step], sums);
    }
  }

  // Of 32 elements of d, a tensor core adds up those of words 0 and 2, and those of words 1 and 3.
  static __device__ __forceinline__ void add_step(const uint32 (&weights)[2][4],
                                                  const uint32 (&tokens)[kTokenBlocks][4],
                                                  float (&sums)[kTokenBlocks][4]) {
    const uint32 even_words[4] = {weights[0][0], weights[1][0], weights[0][2], weights[1][2]};
    const uint32 odd_words[4] = {weights[0][1], weights[1][1], weights[0][3], weights[1][3]};
#pragma unroll
    for (int block = 0; block < kTokenBlocks; ++block) {
      const uint32(&x)[4] = tokens[block];
      float even[4];
      float odd[4];
      tensor_core_sums(even_words, x[0], x[2], even);
      tensor_core_sums(odd_words, x[1], x[3], odd);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        sums[block][i] = __fadd_rn(__fadd_rn(sums[block][i], even[i]), odd[i]);
    }
  }

  static __device__ __forceinline__ void store_sums(
      Warp& warp, const float (&sums)[kRowBlocks][kTokenBlocks][4], uint32 lane) {
#pragma unroll
    for (int rows = 0; rows < kRowBlocks; ++rows) {
#pragma unroll
      for (int block = 0; block < kTokenBlocks; ++block) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint32 token = block * kBlock + lane % 4 * 2 + i % 2;
          warp.sums[token][rows * kRows + i / 2 * (kRows / 2) + lane / 4] = sums[rows][block][i];
        }
      }
    }
  }

  // Adds up this CTA's warps and sends each sum to the CTA that has the token.
  static __device__ __forceinline__ void send_sums(const Warp* warps, const Storage& storage,
                                                   uint32 m) {
    const uint32 output = threadIdx.x % kTileOutputs;
#pragma unroll
    for (uint32 token = threadIdx.x / kTileOutputs; token < TOKENS;
         token += kTileThreads / kTileOutputs) {
      if (token < m) {
        float sum = warps[0].sums[token][output];
#pragma unroll
        for (uint32 i = 1; i < kTileWarps; ++i)
          sum = __fadd_rn(sum, warps[i].sums[token][output]);
        const uint32 to = token % kParts;
        const float* const slot = &storage.parts[rank()][token / kParts][output];
        send(address_in_cta(shared_address(slot), to), sum,
             address_in_cta(shared_address(storage.barrier), to));
      }
    }
  }
};

}  // namespace kiln
