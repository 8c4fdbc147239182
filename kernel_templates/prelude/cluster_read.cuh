// What the CTAs of one cluster read of each other's shared memory.
// May live here: the barrier that such reads need, and the reads. Shared memory is named by 32-bit
// addresses (see shared.cuh and address_in_cta in cluster.cuh).
#pragma once

#include "prelude/cluster.cuh"
#include "prelude/types.cuh"

namespace kiln {

__device__ __forceinline__ uint32 cluster_ctas() {
  uint32 ctas = 1;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(ctas));
#endif
  return ctas;
}

// A barrier in two halves: what any thread of the cluster wrote to shared memory before it arrived
// is seen by all once they have waited. Every thread calls both, arrivals and waits in turn. Not
// `.aligned`, since nothing says that a warp's threads arrive together.
__device__ __forceinline__ void arrive_at_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// Both addresses are from address_in_cta.
__device__ __forceinline__ void read_cta_2(uint32 address, uint32 (&words)[2]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.v2.u32 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "r"(address)
               : "memory");
#endif
}

}  // namespace kiln
