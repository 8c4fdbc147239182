// The walk of flashmla_sched_meta on one thread, rebuilt from its contract (dense, no extra cache):
// what the op is timed against. One warp reads the lengths and stores the splits; between the two,
// one thread walks through partitions and requests in shared memory and stores the records. May
// live here: baselines only; nothing the library compiles.
#pragma once

#include "prelude/global.cuh"
#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"

namespace kiln_bench {

using kiln::int64;
using kiln::uint32;

// Launch: one CTA of 32 threads, with shared memory for 3 * requests + 1 words.
template <bool PDL>
__global__ void __launch_bounds__(32, 1)
    sched_walk(int* meta, int* num_splits, const int* seqlens_k, int block_size, int overhead,
               int requests, int partitions) {
  extern __shared__ int words[];
  int* const lengths = words;
  int* const blocks = lengths + requests;
  int* const splits = blocks + requests;
  kiln::launch_dependents<PDL>();
  kiln::wait_for_prerequisites<PDL>();
  int total = 0;
  for (int i = threadIdx.x; i < requests; i += 32) {
    lengths[i] = kiln::load_int(seqlens_k + i);
    blocks[i] = max(lengths[i] - 1, 0) / block_size + 1;
    total += blocks[i] + overhead;
  }
  for (int mask = 16; mask > 0; mask /= 2)
    total += __shfl_xor_sync(0xffffffffu, total, mask);
  __syncwarp();
  if (threadIdx.x == 0) {
    const int payload = (total + partitions - 1) / partitions + overhead;
    int request = 0;
    int block = 0;
    int split = 0;
    int all = 0;
    splits[0] = 0;
    for (int p = 0; p < partitions; ++p) {
      int record[8] = {request, 0, request < requests ? block : blocks[0] - 1, 0, split, block != 0,
                       0,       0};
      int remain = payload;
      while (request < requests) {
        const int rest = blocks[request] - block;
        if (remain >= rest + overhead) {
          remain -= rest + overhead;
          all += split + 1;
          splits[++request] = all;
          block = 0;
          split = 0;
          continue;
        }
        if (remain - overhead > 0) {
          block += remain - overhead;
          ++split;
        }
        break;
      }
      record[1] = block > 0 ? request : request - 1;
      const int last = blocks[record[1]];
      record[3] = block > 0 ? block : lengths[record[1]] == 0 ? 0 : last;
      record[6] = lengths[record[1]] != 0 && record[3] != last;
      if (record[0] == record[1])
        record[5] = record[6] = record[5] | record[6];
      uint32 out[8];
      for (int i = 0; i < 8; ++i)
        out[i] = static_cast<uint32>(record[i]);
      kiln::store_16<0>(meta + static_cast<int64>(p) * 8, out);
      kiln::store_16<4>(meta + static_cast<int64>(p) * 8 + 4, out);
    }
  }
  __syncwarp();
  for (int i = threadIdx.x; i <= requests; i += 32)
    kiln::store_4(num_splits + i, static_cast<uint32>(splits[i]));
}

}  // namespace kiln_bench
