// A row's scores as the keys of a selection.
// May live here: how the threads of a cluster share the scores of a row that lie in global memory,
// and where each of those taken comes to stand. No kernel.
//
// A thread has consecutive scores, so that the places follow from counts of the threads before it.
#pragma once

#include "attention/candidate_select.cuh"
#include "prelude/float_order.cuh"
#include "prelude/global.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"

namespace kiln {

// A row's scores, and this thread's part of them: in each round `per_thread` scores one after the
// other, a multiple of 4.
struct RowScores {
  const float* scores;
  uint32 count;
  uint32 per_thread;
  uint32 rounds;
  uint32 rank;
  uint32 ctas;

  enum : uint32 { kMostAtOnce = 8 };

  __device__ __forceinline__ RowScores(const float* row, uint32 row_count)
      : scores(row), count(row_count), ctas(cluster_ctas()) {
    rank = blockIdx.x % ctas;
    const uint32 threads = ctas * kSelectThreads;
    per_thread = min((count - 1) / threads / 4 * 4 + 4, uint32{kMostAtOnce});
    rounds = (count - 1) / (threads * per_thread) + 1;
  }
  template <bool PDL>
  __device__ __forceinline__ void pin_all() {
    pin<PDL>(scores);
    pin<PDL>(count);
    pin<PDL>(per_thread);
    pin<PDL>(rounds);
    pin<PDL>(rank);
    pin<PDL>(ctas);
  }
  __device__ __forceinline__ uint32 first(uint32 round) const {
    return ((rank * rounds + round) * kSelectThreads + threadIdx.x) * per_thread;
  }
  // The keys of a round, of which there are HELD at most; those past the end are 0.
  template <uint32 HELD>
  __device__ __forceinline__ void load(uint32 round, uint32 (&keys)[HELD]) const {
    const uint32 begin = first(round);
    const bool vectors = reinterpret_cast<unsigned long long>(scores) % 16 == 0;
    uint32 words[HELD / 4][4] = {};
#pragma unroll
    for (uint32 i = 0; i < HELD / 4; ++i) {
      const uint32 at = begin + i * 4;
      if (i * 4 >= per_thread || at >= count)
        continue;
      if (vectors && at + 4 <= count) {
        load_16<0>(scores + at, words[i]);
      } else {
#pragma unroll
        for (uint32 j = 0; j < 4; ++j) {
          if (at + j < count)
            words[i][j] = __float_as_uint(load_element(scores + (at + j)));
        }
      }
    }
#pragma unroll
    for (uint32 i = 0; i < HELD; ++i)
      keys[i] = i < per_thread && begin + i < count ? order_key(words[i / 4][i % 4]) : 0u;
  }
};

// The keys of a thread: held, or read again at every pass.
template <uint32 HELD, bool REREAD>
struct RowKeys {
  const RowScores& row;
  uint32 keys[HELD];

  __device__ __forceinline__ explicit RowKeys(const RowScores& scores) : row(scores) {
    if constexpr (!REREAD)
      row.load(0, keys);
  }
  // one_round(round) once its keys are there.
  template <class OneRound>
  __device__ __forceinline__ void each_round(const OneRound& one_round) {
    if constexpr (REREAD) {
      for (uint32 round = 0; round < row.rounds; ++round) {
        row.load(round, keys);
        one_round(round);
      }
    } else {
      one_round(0u);
    }
  }
  template <class Take>
  __device__ __forceinline__ void each(const Take& take) {
    each_round([&](uint32) {
#pragma unroll
      for (uint32 i = 0; i < HELD; ++i)
        take(keys[i]);
    });
  }
};

// Passes each score that is taken to sink.take(scores, place, index, key), and the last of those
// equal to the threshold to sink.take_last(index); sink.take_threshold(threshold) comes before
// both.
template <uint32 HELD, bool REREAD, class Sink>
__device__ __forceinline__ void select_keys(const RowScores& row, uint32 k, SelectShared& shared,
                                            Sink& sink) {
  RowKeys<HELD, REREAD> keys(row);
  keys.each([&](uint32 key) { count_first_digit(shared, row.rank, key); });
  const Threshold threshold = find_threshold(shared, k, row.rank, row.ctas, keys);
  sink.take_threshold(threshold);
  CtaScan scan{shared};
  uint32 above = 0;
  uint32 equal = equal_before(shared, threshold, row.rank);
  keys.each_round([&](uint32 round) {
    uint32 counts = 0;  // Above and equal: no CTA has 2^16 of either in a round.
#pragma unroll
    for (uint32 i = 0; i < HELD; ++i) {
      const uint32 key = keys.keys[i];
      counts += key > threshold.key                           ? 1u
                : key == threshold.key && threshold.ties != 0 ? 1u << 16
                                                              : 0u;
    }
    uint32 total;
    uint32 others = round == 0 ? part_above_before(shared, threshold, row.rank) : 0u;
    const uint32 before = scan.before(counts, total, others);
    above += others;
    uint32 above_here = above + (before & 0xffffu);
    uint32 equal_here = equal + (before >> 16);
#pragma unroll
    for (uint32 i = 0; i < HELD; ++i) {
      const uint32 key = keys.keys[i];
      const bool is_equal = key == threshold.key && threshold.ties != 0;
      if (key > threshold.key || (is_equal && equal_here < threshold.equals)) {
        const uint32 index = row.first(round) + i;
        sink.take(row.scores, above_here + min(equal_here, threshold.equals), index, key);
        if (is_equal && equal_here + 1 == threshold.equals)
          sink.take_last(index);
      }
      above_here += key > threshold.key ? 1u : 0u;
      equal_here += is_equal ? 1u : 0u;
    }
    above += total & 0xffffu;
    equal += total >> 16;
  });
}

// The k greatest of a row's scores, 1 <= k <= row.count. prepare_select was called.
template <class Sink>
__device__ __forceinline__ void select_row(const RowScores& row, uint32 k, SelectShared& shared,
                                           Sink& sink) {
  if (row.per_thread == 4 && row.rounds == 1) {
    select_keys<4, false>(row, k, shared, sink);
  } else if (row.rounds == 1) {
    select_keys<RowScores::kMostAtOnce, false>(row, k, shared, sink);
  } else {
    select_keys<RowScores::kMostAtOnce, true>(row, k, shared, sink);
  }
}

}  // namespace kiln
