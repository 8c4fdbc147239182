// Bulk copies from global to shared memory by the copy engine, which need no registers on the way.
// May live here: the copy and its cache policy. Barriers are in cluster.cuh.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

// The policy for what is read once: its lines leave the L2 cache first.
__device__ __forceinline__ unsigned long long read_once_policy() {
  unsigned long long policy = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

// Starts copying `bytes`, a multiple of 16, between addresses aligned to 16; they are counted at
// the barrier (see init_byte_barrier). Called by one thread.
__device__ __forceinline__ void copy_to_shared(uint32 to, const void* from, uint32 bytes,
                                               uint32 barrier, unsigned long long policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], "
      "%2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
#endif
}

}  // namespace kiln
