// Copies from global to shared memory that go on while the thread does something else.
// May live here: cp.async of 16 bytes, and waiting for it. Shared memory is named by 32-bit
// addresses (see shared.cuh).
//
// Each thread has its copies in groups, one after the other. What a thread copied it sees itself
// after it has waited for the group; other threads, after a barrier that follows the wait.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

// Both addresses must be 16-byte aligned. Passes L1 by.
__device__ __forceinline__ void copy_16_async(uint32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// The copies since the last call are a group, which may be empty.
__device__ __forceinline__ void end_copy_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until all groups but the last LEFT are done.
template <int LEFT>
__device__ __forceinline__ void wait_for_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

}  // namespace kiln
