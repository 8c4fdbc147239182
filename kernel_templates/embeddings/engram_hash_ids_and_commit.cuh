// Ids of the n-grams that end at each token of a decode step, whose history then takes the token
// in. May live here: the two kernels of this op.
//
// Padding rows may share a slot with a live row, so every row is read before any is written. With
// COMMITS, one CTA has all tokens, reads them, meets at a barrier and writes; else a second kernel
// writes, from `tokens`, once the first has finished.
//
// Launch of the first: as engram_hash_ids.cuh, with COMMITS one CTA whose tile is all tokens. Of
// the second: block (threads, a multiple of 8), grid (ceil(tokens * 8 / threads)).
#pragma once

#include "embeddings/engram_hash.cuh"

namespace kiln {

// history: [rows, order - 1], oldest first. Where out_cache_loc[t] is 0, the row of t stays.
struct CommitToken {
  static constexpr bool kCommits = true;
  int* history;
  const void* out_cache_loc;
  uint32 order;
  bool wide;

  __device__ __forceinline__ void commit(uint32 t, uint32 shift, int64 row, uint32 token) const {
    if (shift < order - 1 && load_index(out_cache_loc, t, wide) != 0)
      store_4(history + (row * (order - 1) + (order - 2 - shift)), token);
  }
  __device__ __forceinline__ void commit(uint32 t, uint32 shift, const Shifted& found) const {
    commit(t, shift, found.history_row, static_cast<uint32>(found.token));
  }
};

// See engram_hash.cuh. constants_early: false moves the reads of the tables behind the PDL wait.
template <int MAX_ORDER, bool RECIPROCALS, bool COMMITS, bool PDL>
__global__ void __launch_bounds__(kMostHashThreads, 2)
    engram_hash_ids_and_commit(const void* input_ids, const void* positions, int* history,
                               const void* token_map, const int64* multipliers, const int64* primes,
                               const int64* offsets, const int64* reciprocals,
                               const void* req_slots, const void* out_cache_loc, int64 pad_id,
                               int64 image_token_id, int64 mm_pad_shift, int64* ids, int* tokens,
                               int t, int vocabulary, int order, int heads, int outputs, int width,
                               int tile, int flags, bool constants_early) {
  HashInputs in{};
  in.input_ids = input_ids;
  in.positions = positions;
  in.history = history;
  in.req_slots = req_slots;
  in.pad_id = pad_id;
  in.image_token_id = image_token_id;
  in.mm_pad_shift = mm_pad_shift;
  in.flags = flags;
  const HashTables tables{token_map, multipliers, primes, reciprocals, offsets};
  const HashShape shape{static_cast<uint32>(t),       static_cast<uint32>(vocabulary),
                        static_cast<uint32>(order),   static_cast<uint32>(heads),
                        static_cast<uint32>(outputs), static_cast<uint32>(width),
                        static_cast<uint32>(tile)};
  if constexpr (COMMITS) {
    const CommitToken commits{history, out_cache_loc, shape.order, in.has(kWideLoc)};
    hash_tokens<MAX_ORDER, RECIPROCALS, PDL>(in, tables, shape, constants_early, ids, tokens,
                                             commits);
  } else {
    hash_tokens<MAX_ORDER, RECIPROCALS, PDL>(in, tables, shape, constants_early, ids, tokens,
                                             LeaveHistory{});
  }
}

template <bool PDL>
__global__ void __launch_bounds__(256)
    engram_commit_tokens(const int* tokens, int* history, const void* req_slots,
                         const void* out_cache_loc, int t, int order, int flags) {
  launch_dependents<PDL>();
  // Not by way of the thread's number in the grid, which may need more than 32 bits.
  const uint32 token = blockIdx.x * (blockDim.x / kShifts) + threadIdx.x / kShifts;
  const uint32 shift = threadIdx.x % kShifts;
  const CommitToken commits{history, out_cache_loc, static_cast<uint32>(order),
                            (flags & kWideLoc) != 0};
  wait_for_prerequisites<PDL>();
  if (token >= static_cast<uint32>(t) || shift >= static_cast<uint32>(order) - 1)
    return;
  const int64 row = load_index(req_slots, token, (flags & kWideSlots) != 0);
  const int value = load_int(tokens + (static_cast<int64>(token) * order + shift));
  commits.commit(token, shift, row, static_cast<uint32>(value));
}

}  // namespace kiln
