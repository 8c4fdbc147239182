// Histories that take in the accepted tokens of a verify step.
// May live here: this kernel alone.
//
// 8 lanes of one warp have a request: each reads its place's new token before any writes. Launch:
// block (threads, a multiple of 32), grid (ceil(requests * 8 / threads)).
#pragma once

#include "prelude/global.cuh"
#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"

namespace kiln {

enum : int { kWideVerifyIds = 1, kWideSlotIds = 2, kWideLens = 4 };

// history: [rows, length], oldest first, length at most 8. verify_ids: [requests, width].
// req_slots, commit_lens: [requests].
template <bool PDL>
__global__ void __launch_bounds__(256)
    engram_commit_history(int* history, const void* verify_ids, const void* req_slots,
                          const void* commit_lens, int requests, int length, int width, int flags) {
  constexpr uint32 kLanes = 8;
  launch_dependents<PDL>();
  // Not by way of the thread's number in the grid, which may need more than 32 bits.
  const uint32 request = blockIdx.x * (blockDim.x / kLanes) + threadIdx.x / kLanes;
  const int place = static_cast<int>(threadIdx.x % kLanes);
  wait_for_prerequisites<PDL>();
  const bool active = request < static_cast<uint32>(requests) && place < length;
  int64 committed = 0;
  int* row = history;
  uint32 token = 0;
  if (active) {
    committed = load_index(commit_lens, request, (flags & kWideLens) != 0);
    committed = committed < 0 ? 0 : committed > width ? width : committed;
    row += load_index(req_slots, request, (flags & kWideSlotIds) != 0) * length;
    const int64 from = place + committed;  // In the old row followed by the accepted tokens.
    token = static_cast<uint32>(
        from < length ? load_int(row + from)
                      : load_index(verify_ids, static_cast<int64>(request) * width + from - length,
                                   (flags & kWideVerifyIds) != 0));
  }
  __syncwarp();
  if (active)
    store_4(row + place, token);
}

}  // namespace kiln
