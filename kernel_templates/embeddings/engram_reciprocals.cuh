// Reciprocals of the primes of a hash, as prelude/remainder.cuh takes them.
// May live here: this kernel alone.
//
// Launch: block (256), grid (ceil(count / 256)).
#pragma once

#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/remainder.cuh"
#include "prelude/types.cuh"

namespace kiln {

// primes, reciprocals: [count]. A prime outside [1, 2^63) would make every remainder by it wrong:
// the kernel then traps, which fails the context's work for good. It runs once, when a model is
// loaded.
template <bool PDL>
__global__ void __launch_bounds__(256)
    engram_reciprocals(const int64* primes, int64* reciprocals, int count) {
  launch_dependents<PDL>();
  const uint32 i = blockIdx.x * blockDim.x + threadIdx.x;
  wait_for_prerequisites<PDL>();
  if (i >= static_cast<uint32>(count))
    return;
  const int64 prime = load_int64(primes + i);
  if (prime < 1)
    __trap();
  store_int64(reciprocals + i, static_cast<int64>(reciprocal_of(static_cast<uint64>(prime))));
}

}  // namespace kiln
