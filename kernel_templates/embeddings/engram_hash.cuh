// N-gram hashes of the last tokens of each position.
// May live here: what the ops that hash share. Not who calls it, nor what becomes of the history
// afterwards.
//
// A CTA takes `tile` tokens at once. First, 8 threads a token look up its predecessors, one shift
// each, and leave their compressed ids in shared memory; then a thread for every output of the
// tile works out a hash and its remainder. What an output needs of the tables does not depend on
// the token, so it is read once, before the PDL wait, and so is the reciprocal of its prime, which
// is either read or worked out there.
#pragma once

#include "prelude/global.cuh"
#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/remainder.cuh"
#include "prelude/types.cuh"
#include "prelude/warp.cuh"

namespace kiln {

enum : uint32 {
  kShifts = 8,  // At most; lanes that look up one token.
  kMostHashThreads = 512,
  kMostTile = kMostHashThreads / kShifts,
};

// Which inputs are of int64, and which scalars are given.
enum : int {
  kWideIds = 1,
  kWidePositions = 2,
  kWideMap = 4,
  kWideSlots = 8,
  kWideRow = 16,
  kWideStarts = 32,
  kWideIndptr = 64,
  kHasReal = 128,
  kHasBlock = 256,
  kHasImages = 512,
  kWideLoc = 1024,
};

// Constant. multipliers: [layers, order]. primes, reciprocals (or null), offsets: [layers, (order -
// 1) * heads].
struct HashTables {
  const void* token_map;
  const int64* multipliers;
  const int64* primes;
  const int64* reciprocals;
  const int64* offsets;
};

// A null pointer is an input that is not given.
struct HashInputs {
  const void* input_ids;
  const void* positions;
  const int* history;  // [rows, order - 1], oldest first
  const void* req_slots;
  const void* row;
  const void* starts;
  const void* qo_indptr;
  uint32 requests;  // That qo_indptr holds.
  int block;
  int64 num_real;
  int64 pad_id;
  int64 image_token_id;
  int64 mm_pad_shift;
  int flags;

  __device__ __forceinline__ bool has(int flag) const { return (flags & flag) != 0; }
};

struct HashShape {
  uint32 tokens;
  uint32 vocabulary;
  uint32 order;
  uint32 heads;
  uint32 outputs;  // Of a token, in all layers.
  uint32 width;    // Outputs of a token that one CTA works out; blockIdx.y says which.
  uint32 tile;     // Tokens that one CTA takes at once.
};

// Who a token belongs to.
struct Owner {
  int64 request = 0;
  int64 offset = 0;  // Of the token in its request's run.
  bool padding = false;
};

// The request whose run holds token t, by all 8 lanes of the token, and by all tokens of the warp
// together. Each round leaves an eighth of the requests, those between two of 8 boundaries.
__device__ __forceinline__ Owner find_owner(const HashInputs& in, uint32 t, uint32 lane) {
  const bool wide = in.has(kWideIndptr);
  const uint32 first_lane = lane / kShifts * kShifts;
  Owner owner;
  const int64 end = load_index(in.qo_indptr, in.requests, wide);
  uint32 low = 0;
  uint32 high = in.requests;
  for (uint32 width = in.requests; width > 1;) {
    const uint32 step = (width + kShifts - 1) / kShifts;
    const uint32 boundary = low + step * (lane % kShifts + 1);
    const bool below = boundary < high && load_index(in.qo_indptr, boundary, wide) <= t;
    const uint32 votes = __ballot_sync(0xffffffffu, below) >> first_lane & 0xffu;
    low += step * __popc(votes);
    high = min(high, low + step);
    width = step;
  }
  const int64 start = load_index(in.qo_indptr, low, wide);
  owner.request = low;
  owner.offset = t - start;
  owner.padding = t >= end || t < start;
  return owner;
}

__device__ __forceinline__ Owner owner_of(const HashInputs& in, uint32 t, uint32 lane) {
  Owner owner;
  if (in.qo_indptr != nullptr)
    owner = find_owner(in, t, lane);
  owner.padding = owner.padding || (in.has(kHasReal) && t >= in.num_real);
  if (owner.padding || in.qo_indptr != nullptr)
    return owner;
  if (in.row != nullptr) {
    owner.request = load_index(in.row, t, in.has(kWideRow));
    owner.offset = t - load_index(in.starts, owner.request, in.has(kWideStarts));
  } else {
    const uint32 block = in.has(kHasBlock) ? static_cast<uint32>(in.block) : 1;
    owner.request = t / block;
    owner.offset = t % block;
  }
  return owner;
}

// One shift of one token.
struct Shifted {
  int64 token = 0;       // As `tokens` has it.
  int64 compressed = 0;  // Its id, or the pad id.
  int64 history_row = 0;
};

// Called by all lanes of a warp, 8 for each token. Lanes beyond the order, or of a token past the
// end (which repeats the last one), get something that nobody uses.
template <bool SLOTS>
__device__ __forceinline__ Shifted look_back(const HashInputs& in, const HashShape& shape,
                                             const void* token_map, uint32 t, uint32 lane) {
  const uint32 shift = lane % kShifts;
  const Owner owner = owner_of(in, t, lane);
  const bool used = shift < shape.order && !owner.padding;
  const bool from_history = used && shift > owner.offset;
  int64 position = 0;
  if (used)
    position = load_index(in.positions, t, in.has(kWidePositions));
  Shifted result;
  result.history_row = owner.request;
  if ((from_history || (SLOTS && used)) && in.req_slots != nullptr)
    result.history_row = load_index(in.req_slots, owner.request, in.has(kWideSlots));
  if (from_history) {
    const int64 back = shift - owner.offset - 1;
    result.token =
        load_int(in.history + (result.history_row * (shape.order - 1) + (shape.order - 2 - back)));
  } else if (used) {
    result.token = load_index(in.input_ids, static_cast<int64>(t) - shift, in.has(kWideIds));
  }
  const bool images = in.has(kHasImages);
  if (images && result.token >= in.mm_pad_shift)
    result.token = in.image_token_id;
  const bool blocks = shift < shape.order && (owner.padding || position < shift ||
                                              (images && result.token == in.image_token_id));
  const uint32 last = shape.vocabulary - 1;
  const int64 inside = result.token < 0 ? 0 : result.token > last ? last : result.token;
  const int64 mapped = load_index(token_map, inside, in.has(kWideMap));
  // One that blocks does so for every older one, too.
  const uint32 votes = __ballot_sync(0xffffffffu, blocks) >> (lane / kShifts * kShifts);
  result.compressed = (votes & ((2u << shift) - 1)) != 0 ? in.pad_id : mapped;
  return result;
}

// What one output needs of the tables.
template <int MAX_ORDER>
struct HashColumn {
  int64 multipliers[MAX_ORDER] = {};  // 0 beyond the output's n-gram.
  uint64 prime = 1;
  uint64 reciprocal = 0;
  int64 offset = 0;

  template <bool RECIPROCALS>
  __device__ __forceinline__ void load(const HashTables& tables, const HashShape& shape,
                                       uint32 column) {
    const uint32 per_layer = (shape.order - 1) * shape.heads;
    const uint32 layer = column / per_layer;
    const uint32 oldest = column % per_layer / shape.heads + 1;
    prime = load_int64(tables.primes + column);
    if constexpr (RECIPROCALS) {
      reciprocal = load_int64(tables.reciprocals + column);
    }
    offset = load_int64(tables.offsets + column);
#pragma unroll
    for (uint32 s = 0; s < MAX_ORDER; ++s) {
      if (s <= oldest)
        multipliers[s] =
            load_int64(tables.multipliers + (static_cast<int64>(layer) * shape.order + s));
    }
    if constexpr (!RECIPROCALS)
      reciprocal = reciprocal_of(prime);
  }

  __device__ __forceinline__ int64 id(const int64* compressed) const {
    uint64 hash = 0;
#pragma unroll
    for (int s = 0; s < MAX_ORDER; ++s)
      hash ^= static_cast<uint64>(compressed[s]) * static_cast<uint64>(multipliers[s]);
    return static_cast<int64>(remainder(hash, prime, reciprocal)) + offset;
  }
};

// Does nothing with a token's history.
struct LeaveHistory {
  static constexpr bool kCommits = false;
  __device__ __forceinline__ void commit(uint32, uint32, const Shifted&) const {}
};

// ids: [tokens, outputs]. tokens: [tokens, order]. With a `history` that commits, the grid is one
// CTA and the tokens are one tile.
template <int MAX_ORDER, bool RECIPROCALS, bool PDL, class History>
__device__ __forceinline__ void hash_tokens(const HashInputs& in, const HashTables& tables,
                                            const HashShape& shape, bool constants_early,
                                            int64* ids, int* tokens, const History& history) {
  launch_dependents<PDL>();
  __shared__ alignas(16) int64 compressed[2][kMostTile][kShifts];
  const uint32 lane = threadIdx.x % kWarpLanes;
  const uint32 shift = lane % kShifts;
  const uint32 looked_up = threadIdx.x / kShifts;  // The token in the tile.
  const uint32 hashed = threadIdx.x / shape.width;
  const uint32 column = blockIdx.y * shape.width + threadIdx.x % shape.width;
  const bool hashes = hashed < shape.tile && column < shape.outputs;
  HashColumn<MAX_ORDER> mine;
  if (hashes && (!PDL || constants_early))
    mine.template load<RECIPROCALS>(tables, shape, column);
  wait_for_prerequisites<PDL>();
  if (hashes && PDL && !constants_early)
    mine.template load<RECIPROCALS>(tables, shape, column);

  uint32 turn = 0;
  for (uint32 first = blockIdx.x * shape.tile; first < shape.tokens;
       first += gridDim.x * shape.tile) {
    const uint32 t = first + looked_up;
    // Whole warps, so that lanes can vote.
    const bool warp_looks_up = (threadIdx.x - lane) / kShifts < shape.tile;
    const bool looks_up = looked_up < shape.tile && t < shape.tokens;
    Shifted found;
    if (warp_looks_up) {
      found =
          look_back<History::kCommits>(in, shape, tables.token_map, min(t, shape.tokens - 1), lane);
      if (looks_up)
        compressed[turn % 2][looked_up][shift] = found.compressed;
      if (looks_up && blockIdx.y == 0 && shift < shape.order)
        store_4(tokens + (static_cast<int64>(t) * shape.order + shift),
                static_cast<uint32>(found.token));
    }
    __syncthreads();
    if (History::kCommits && looks_up)
      history.commit(t, shift, found);
    if (hashes && first + hashed < shape.tokens)
      store_int64(ids + (static_cast<int64>(first + hashed) * shape.outputs + column),
                  mine.id(compressed[turn % 2][hashed]));
    ++turn;  // Who writes a buffer again has passed the barrier of the tile between.
  }
}

}  // namespace kiln
