// What the CTAs of one cluster tell each other through shared memory.
// May live here: a cluster's size, its barrier, memory barriers (mbarrier), and stores to another
// CTA's shared memory. Shared memory is named by 32-bit addresses (see shared.cuh).
#pragma once

#include "prelude/shared.cuh"
#include "prelude/types.cuh"

namespace kiln {

__device__ __forceinline__ uint32 cluster_ctas() {
  uint32 ctas = 1;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(ctas));
#endif
  return ctas;
}

// All threads of all CTAs of the cluster meet here, in two steps: between them a thread goes on
// with what needs none of the others. Afterwards it sees the barriers that any of them had made
// (init_byte_barrier); an arrival that released more would wait for loads under way.
__device__ __forceinline__ void arrive_at_cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_at_cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Both steps at once. A thread also sees what those of its CTA wrote to shared memory.
__device__ __forceinline__ void cluster_barrier() {
  __syncthreads();
  arrive_at_cluster_barrier();
  wait_at_cluster_barrier();
}

// A barrier whose phase ends when one thread has arrived and the bytes it expects have come in.
__device__ __forceinline__ void init_byte_barrier(uint32 barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ __forceinline__ void arrive_expecting(uint32 barrier, uint32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
#endif
}

// Returns once the phase of this parity has ended; the bytes that it counted are visible.
__device__ __forceinline__ void wait_for_bytes(uint32 barrier, uint32 parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
#endif
}

// The address that a CTA of the cluster gives to what this CTA has at `address`.
__device__ __forceinline__ uint32 address_in_cta(uint32 address, uint32 rank) {
  uint32 remote = address;
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
#endif
  return remote;
}

// Stores 4 bytes into a CTA's shared memory and counts them at a barrier of the same CTA. Both
// addresses are from address_in_cta.
__device__ __forceinline__ void send(uint32 address, float value, uint32 barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(address),
      "r"(__float_as_uint(value)), "r"(barrier)
      : "memory");
#endif
}

}  // namespace kiln
