// All of candidate_block_logits without a mask that is given, a cluster for each row: logits masked
// past the row's length, and which positions lie in the blocks with the greatest of them.
// May live here: this kernel alone.
//
// A CTA has consecutive blocks of its row. The keys of their maxima lie in its shared memory, from
// which the cluster selects; so nothing but the logits is read, and nothing but the two outputs is
// written. Launch: see candidate_select.cuh, with 4 bytes of shared memory for each block of a CTA,
// of which all but the last ones of a row have as many, a multiple of 16.
#pragma once

#include "attention/candidate_rows.cuh"
#include "attention/candidate_select.cuh"
#include "attention/logit_group.cuh"
#include "prelude/division.cuh"
#include "prelude/float_order.cuh"
#include "prelude/global.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/warp.cuh"

namespace kiln {

// The blocks of one CTA.
struct SourceBlocks {
  const float* logits;  // Of the row, as are the next two.
  float* out;
  uint8* keep;
  Divisor block;
  uint32 first;  // Block
  uint32 count;
  uint32 begin;  // Position
  uint32 end;
  uint32 vectors;  // Whether four positions can be taken at once.
  uint32* keys;

  __device__ __forceinline__ SourceBlocks(const float* row_logits, float* row_out, uint8* row_keep,
                                          uint32 block_size, uint32 width, uint32* own_keys)
      : logits(row_logits), out(row_out), keep(row_keep), block(block_size), keys(own_keys) {
    const uint32 ctas = cluster_ctas();
    const uint32 blocks = block.divide_up(width);
    const uint32 own = ((blocks - 1) / ctas / 16 + 1) * 16;
    first = min(blockIdx.x % ctas * own, blocks);
    count = min(own, blocks - first);
    begin = min(first * block.value, width);
    end = min(begin + count * block.value, width);
    vectors =
        on_16_bytes(logits) && on_16_bytes(out) && end % 4 == 0 && block.value % 4 == 0 ? 1 : 0;
  }
  template <bool PDL>
  __device__ __forceinline__ void pin_all() {
    pin<PDL>(logits);
    pin<PDL>(out);
    pin<PDL>(keep);
    pin<PDL>(block.value);
    pin<PDL>(block.reciprocal);
    pin<PDL>(first);
    pin<PDL>(count);
    pin<PDL>(begin);
    pin<PDL>(end);
    pin<PDL>(vectors);
  }

  // Masks the positions in groups of W, COUNT of a thread under way at once, and takes the maxima
  // of their blocks. `lanes` neighbours, a power of two, have groups of one block.
  template <uint32 W, uint32 COUNT>
  __device__ __forceinline__ void take_logits(uint32 length, uint32 lanes) const {
    constexpr uint32 kStep = kSelectThreads * W;
    const uint32 lane = threadIdx.x % kWarpLanes;
    for (uint32 base = begin + (threadIdx.x - lane) * W; base < end; base += COUNT * kStep) {
      LogitGroup<W> groups[COUNT] = {};
#pragma unroll
      for (uint32 j = 0; j < COUNT; ++j) {
        const uint32 position = base + j * kStep + lane * W;
        if (position < end && position < length)
          groups[j].load(logits + position);
      }
#pragma unroll
      for (uint32 j = 0; j < COUNT; ++j) {
        if (base + j * kStep >= end)
          break;
        const uint32 position = base + j * kStep + lane * W;
        if (position + W > length)
          groups[j].mask(position, length);
        float most = __uint_as_float(kNegativeInfinity);
        if (position < end) {
          groups[j].store(out + position);
#pragma unroll
          for (uint32 i = 0; i < W; ++i)
            most = max_or_nan(most, __uint_as_float(groups[j].bits[i]));
        }
        for (uint32 mask = 1; mask < lanes; mask *= 2)
          most = max_or_nan(most, __shfl_xor_sync(0xffffffffu, most, mask));
        if (position < end && (lane & (lanes - 1)) == 0) {
          const uint32 key = order_key(__float_as_uint(most));
          atomicMax(keys + (block.divide(position) - first), key);
        }
      }
    }
  }

  // The blocks' keys, once more from those of their maxima, and the counts of their first digits.
  __device__ __forceinline__ void finish_keys(uint32 length, SelectShared& shared,
                                              uint32 rank) const {
    const uint32 last_visible = length != 0 ? block.divide(length - 1) : 0xffffffffu;
    for (uint32 i = threadIdx.x; i < count; i += kSelectThreads) {
      uint32 key = keys[i];
      if (first + i == last_visible)
        keys[i] = key = order_key(kPositiveInfinity);
      count_first_digit(shared, rank, key);
    }
  }

  template <class Take>
  __device__ __forceinline__ void each(const Take& take) const {
    for (uint32 i = threadIdx.x; i < count; i += kSelectThreads)
      take(keys[i]);
  }

  // The block, counted from `first`, in front of which the first `wanted` >= 1 of those of this key
  // lie.
  __device__ __forceinline__ uint32 end_of_equal(SelectShared& shared, uint32 key,
                                                 uint32 wanted) const {
    const uint32 per_thread = (count + kSelectThreads - 1) / kSelectThreads;
    const uint32 from = min(threadIdx.x * per_thread, count);
    const uint32 to = min(from + per_thread, count);
    uint32 equal = 0;
    for (uint32 i = from; i < to; ++i)
      equal += keys[i] == key ? 1u : 0u;
    if (threadIdx.x == 0)
      shared.found[0][0] = count;
    uint32 total;
    uint32 added = 0;
    uint32 before = CtaScan{shared}.before(equal, total, added);
    for (uint32 i = from; i < to; ++i) {
      before += keys[i] == key ? 1u : 0u;
      if (keys[i] == key && before == wanted)
        shared.found[0][0] = i + 1;
    }
    __syncthreads();
    return shared.found[0][0];
  }

  // What is kept: blocks of a key above `least`, and those of this key in front of `equal_end`.
  __device__ __forceinline__ void store_keep(uint32 least, uint32 equal_end) const {
    const auto kept = [&](uint32 position) {
      const uint32 i = block.divide(position) - first;
      const uint32 key = keys[i];
      const bool taken = key > least || (key == least && i < equal_end);
      return taken && key != kNanKey && key != kNegativeInfinityKey ? 1u : 0u;
    };
    const bool whole = on_16_bytes(keep + begin) && block.value % 4 == 0 && (end - begin) % 16 == 0;
    if (!whole) {
      for (uint32 position = begin + threadIdx.x; position < end; position += kSelectThreads)
        store_1(keep + position, kept(position));
      return;
    }
    for (uint32 position = begin + threadIdx.x * 16; position < end;
         position += kSelectThreads * 16) {
      uint32 words[4];
#pragma unroll
      for (uint32 i = 0; i < 4; ++i)
        words[i] = kept(position + i * 4) * 0x01010101u;
      store_16<0>(keep + position, words);
    }
  }
};

// logits: rows of `width`, logits_row_stride elements apart. seq_lens: [rows], of int64 (wide_lens)
// or int32. out, keep: [rows, width].
template <bool PDL>
__global__ void __launch_bounds__(kSelectThreads, 1)
    candidate_source(const float* logits, int64 logits_row_stride, const void* seq_lens, float* out,
                     uint8* keep, int topk_blocks, int block_size, uint32 width, uint32 wide_lens) {
  extern __shared__ uint4 source_storage[];
  __shared__ SelectShared shared;
  launch_dependents<PDL>();
  const uint32 ctas = cluster_ctas();
  const uint32 rank = blockIdx.x % ctas;
  const int64 row = blockIdx.x / ctas;
  SourceBlocks own(logits + row * logits_row_stride, out + row * width, keep + row * width,
                   static_cast<uint32>(block_size), width,
                   reinterpret_cast<uint32*>(source_storage));
  const char* length_at = static_cast<const char*>(seq_lens) + row * (wide_lens != 0 ? 8 : 4);
  uint32 k = min(own.block.divide_up(width), static_cast<uint32>(topk_blocks));
  const uint32 groups = own.block.value / 4;
  uint32 lanes = 1;
  if (own.vectors != 0 && (groups & (groups - 1)) == 0)
    lanes = min(groups, uint32{kWarpLanes});
  for (uint32 i = threadIdx.x; i < own.count; i += kSelectThreads)
    own.keys[i] = kNegativeInfinityKey;
  prepare_select(shared, rank, ctas);
  own.pin_all<PDL>();
  pin<PDL>(length_at);
  pin<PDL>(wide_lens);
  pin<PDL>(width);
  pin<PDL>(k);
  pin<PDL>(lanes);
  wait_for_prerequisites<PDL>();

  const uint32 length = visible_length(length_at, 0, wide_lens != 0, width);
  if (own.vectors != 0) {
    own.take_logits<4, 4>(length, lanes);
  } else {
    own.take_logits<1, 8>(length, 1);
  }
  __syncthreads();
  own.finish_keys(length, shared, rank);
  const Threshold threshold = find_threshold(shared, k, rank, ctas, own);
  const uint32 equal_before_here = equal_before(shared, threshold, rank);
  uint32 equal_end = 0;
  if (threshold.equals == threshold.ties) {
    equal_end = threshold.ties == 0 ? 0u : own.count;
  } else if (threshold.equals > equal_before_here && threshold.key != kNegativeInfinityKey) {
    equal_end = own.end_of_equal(shared, threshold.key, threshold.equals - equal_before_here);
  }
  own.store_keep(threshold.key, equal_end);
}

}  // namespace kiln
