// Programmatic dependent launch (PDL).
// May live here: the two grid-dependency instructions. With ENABLED false neither leaves an
// instruction behind.
#pragma once

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

}  // namespace kiln
