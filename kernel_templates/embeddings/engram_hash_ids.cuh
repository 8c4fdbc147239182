// Ids of the n-grams that end at each token.
// May live here: this kernel alone.
//
// Launch: block (threads, a multiple of 32: at least `width` and 8 for each token of `tile`), grid
// (tiles, or fewer, ceil(outputs / width)).
#pragma once

#include "embeddings/engram_hash.cuh"

namespace kiln {

// See engram_hash.cuh. constants_early: false moves the reads of the tables behind the PDL wait.
template <int MAX_ORDER, bool RECIPROCALS, bool PDL>
__global__ void __launch_bounds__(kMostHashThreads, 2)
    engram_hash_ids(const void* input_ids, const void* positions, const int* history,
                    const void* token_map, const int64* multipliers, const int64* primes,
                    const int64* offsets, const int64* reciprocals, const void* req_slots,
                    const void* row, const void* starts, const void* qo_indptr, int64 pad_id,
                    int64 num_real, int block, int64 image_token_id, int64 mm_pad_shift, int64* ids,
                    int* tokens, int t, int vocabulary, int order, int heads, int requests,
                    int outputs, int width, int tile, int flags, bool constants_early) {
  const HashInputs in{input_ids,    positions, history,   req_slots,
                      row,          starts,    qo_indptr, static_cast<uint32>(requests),
                      block,        num_real,  pad_id,    image_token_id,
                      mm_pad_shift, flags};
  const HashTables tables{token_map, multipliers, primes, reciprocals, offsets};
  const HashShape shape{static_cast<uint32>(t),       static_cast<uint32>(vocabulary),
                        static_cast<uint32>(order),   static_cast<uint32>(heads),
                        static_cast<uint32>(outputs), static_cast<uint32>(width),
                        static_cast<uint32>(tile)};
  hash_tokens<MAX_ORDER, RECIPROCALS, PDL>(in, tables, shape, constants_early, ids, tokens,
                                           LeaveHistory{});
}

}  // namespace kiln
