// Programmatic dependent launch (PDL).
// May live here: the two grid-dependency instructions, and what keeps work on its side of the wait.
// With ENABLED false nothing here leaves an instruction behind.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

// Returns once every grid this one depends on has completed and its writes are visible. Every
// thread calls it on every path, before its first global write and before its first read of data
// that is not constant.
template <bool ENABLED>
__device__ __forceinline__ void wait_for_prerequisites() {
#if __CUDA_ARCH__ >= 900
  if constexpr (ENABLED)
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next grid of the stream start once every CTA of this one has said so. It says nothing
// about this grid's writes: the next grid's own wait still waits for this grid to complete, so
// calling it first thing is correct.
template <bool ENABLED>
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  if constexpr (ENABLED)
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Has a value worked out here. What is pinned before the wait is ready when the wait returns; the
// compiler would otherwise move address arithmetic down to its use, onto the critical path.
template <bool ENABLED, typename T>
__device__ __forceinline__ void pin(T*& pointer) {
  if constexpr (ENABLED)
    asm volatile("" : "+l"(pointer));
}

template <bool ENABLED>
__device__ __forceinline__ void pin(uint32& value) {
  if constexpr (ENABLED)
    asm volatile("" : "+r"(value));
}

}  // namespace kiln
