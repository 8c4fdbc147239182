// The steps of candidate_block_logits behind the scores: the selection as a threshold for each row,
// the mask that follows from it, and logits under a mask that is given.
// May live here: these three kernels.
//
// Between the steps lie thresholds and scores in a workspace: no list of blocks is written only to
// be searched again.
#pragma once

#include "attention/candidate_mask.cuh"
#include "attention/candidate_rows.cuh"
#include "attention/candidate_scores.cuh"
#include "attention/logit_group.cuh"
#include "prelude/division.cuh"
#include "prelude/float_order.cuh"
#include "prelude/global.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"

namespace kiln {

// What is selected of a row: blocks of a greater key, and those of this key in front of `end`.
struct RowThreshold {
  uint32 key;
  uint32 end;
};

struct ThresholdSink {
  RowThreshold* to;
  uint32 rank;
  uint32 key = 0;

  __device__ __forceinline__ void store(uint32 end) const {
    const uint32 words[2] = {key, end};
    store_8(to, words);
  }
  __device__ __forceinline__ void take_threshold(const Threshold& threshold) {
    key = threshold.key;
    if (threshold.ties == 0 && rank == 0 && threadIdx.x == 0)
      store(0);
  }
  __device__ __forceinline__ void take(const float*, uint32, uint32, uint32) const {}
  __device__ __forceinline__ void take_last(uint32 index) const { store(index + 1); }
};

// thresholds: [rows]. Scores, [rows, ceil(width / block_size)], begin scores_offset bytes behind
// them. Launch: see candidate_select.cuh.
template <bool PDL>
__global__ void __launch_bounds__(kSelectThreads, 1)
    candidate_threshold(char* workspace, int64 scores_offset, int topk_blocks, int block_size,
                        int width) {
  __shared__ SelectShared shared;
  launch_dependents<PDL>();
  const int64 row = blockIdx.x / cluster_ctas();
  const Divisor block(static_cast<uint32>(block_size));
  const uint32 blocks = block.divide_up(static_cast<uint32>(width));
  RowScores scores(reinterpret_cast<const float*>(workspace + scores_offset) + row * blocks,
                   blocks);
  ThresholdSink sink{reinterpret_cast<RowThreshold*>(workspace) + row, scores.rank};
  const uint32 k = min(blocks, static_cast<uint32>(topk_blocks));
  prepare_select(shared, scores.rank, scores.ctas);
  scores.pin_all<PDL>();
  wait_for_prerequisites<PDL>();
  select_row(scores, k, shared, sink);
}

// keep: [rows, width]. Launch: block (kMaskThreads), grid (rows, CTAs of a row).
template <bool PDL>
__global__ void __launch_bounds__(kMaskThreads)
    candidate_publish(const char* workspace, int64 scores_offset, uint8* keep, int block_size,
                      int width) {
  __shared__ MaskFlags flags;
  launch_dependents<PDL>();
  const int64 row = blockIdx.x;
  uint32 elements = static_cast<uint32>(width);
  Divisor block(static_cast<uint32>(block_size));
  uint32 blocks = block.divide_up(elements);
  uint32 tile_blocks = mask_tile_blocks(block);
  uint32 step = gridDim.y * tile_blocks;
  const int* threshold = reinterpret_cast<const int*>(workspace) + row * 2;
  const float* scores = reinterpret_cast<const float*>(workspace + scores_offset) + row * blocks;
  uint8* row_keep = keep + row * elements;
  pin<PDL>(threshold);
  pin<PDL>(scores);
  pin<PDL>(row_keep);
  pin<PDL>(block.value);
  pin<PDL>(block.reciprocal);
  pin<PDL>(elements);
  pin<PDL>(blocks);
  pin<PDL>(tile_blocks);
  pin<PDL>(step);
  wait_for_prerequisites<PDL>();
  const uint32 least = static_cast<uint32>(load_int(threshold));
  const uint32 equal_end = static_cast<uint32>(load_int(threshold + 1));
  for (uint32 first = blockIdx.y * tile_blocks; first < blocks; first += step) {
    const uint32 here = min(tile_blocks, blocks - first);
    for (uint32 i = threadIdx.x; i < here; i += kMaskThreads) {
      const uint32 key = order_key(__float_as_uint(load_element(scores + (first + i))));
      const bool selected = key > least || (key == least && first + i < equal_end);
      flags[i] = selected && key != kNanKey && key != kNegativeInfinityKey ? 1 : 0;
    }
    __syncthreads();
    const uint32 begin = first * block.value;
    store_flags(row_keep + begin, min(here * block.value, elements - begin), block, flags);
    __syncthreads();
  }
}

enum : uint32 { kConsumeThreads = 256 };

// Positions [begin, end) of a row in groups of W, COUNT of a thread under way at once; for W of 4
// see take_range of candidate_block_scores.cuh.
template <uint32 W, uint32 COUNT>
__device__ __forceinline__ void mask_range(const float* logits, const uint8* published, float* out,
                                           uint32 length, uint32 begin, uint32 end) {
  constexpr uint32 kStep = kConsumeThreads * W;
  for (uint32 base = begin + threadIdx.x * W; base < end; base += COUNT * kStep) {
    LogitGroup<W> groups[COUNT] = {};
    uint32 bytes[COUNT] = {};
#pragma unroll
    for (uint32 j = 0; j < COUNT; ++j) {
      const uint32 position = base + j * kStep;
      if (position < end && position < length) {
        groups[j].load(logits + position);
        bytes[j] = load_bytes<W>(published + position);
      }
    }
#pragma unroll
    for (uint32 j = 0; j < COUNT; ++j) {
      const uint32 position = base + j * kStep;
      if (position >= end)
        break;
      groups[j].mask(position, length);
#pragma unroll
      for (uint32 i = 0; i < W; ++i) {
        if ((bytes[j] >> (8 * i) & 0xffu) == 0)
          groups[j].bits[i] = kNegativeInfinity;
      }
      groups[j].store(out + position);
    }
  }
}

// logits: rows of `width`, logits_row_stride elements apart. seq_lens: [rows], of int64 (wide_lens)
// or int32. published, out: [rows, width]. Launch: block (kConsumeThreads), grid (rows, CTAs of a
// row), each of `chunk` positions, a multiple of 4.
template <bool PDL>
__global__ void __launch_bounds__(kConsumeThreads)
    candidate_consume(const float* logits, int64 logits_row_stride, const void* seq_lens,
                      const uint8* published, float* out, int width, int chunk, int wide_lens) {
  launch_dependents<PDL>();
  const int64 row = blockIdx.x;
  const uint32 elements = static_cast<uint32>(width);
  const float* const from = logits + row * logits_row_stride;
  const uint8* const kept = published + row * elements;
  float* const to = out + row * elements;
  const uint32 begin = blockIdx.y * static_cast<uint32>(chunk);
  const uint32 end = min(begin + static_cast<uint32>(chunk), elements);
  wait_for_prerequisites<PDL>();
  const uint32 length = visible_length(seq_lens, row, wide_lens != 0, elements);
  const bool vectors =
      on_16_bytes(from) && on_16_bytes(to) && reinterpret_cast<unsigned long long>(kept) % 4 == 0;
  if (vectors) {
    const uint32 whole = end / 4 * 4;
    mask_range<4, 2>(from, kept, to, length, begin, whole);
    mask_range<1, 1>(from, kept, to, length, whole, end);
  } else {
    mask_range<1, 8>(from, kept, to, length, begin, end);
  }
}

}  // namespace kiln
