// rmsnorm of rows of bf16 or fp32, with weights of either type.
// May live here: this kernel alone.
//
// Launch: as rmsnorm.cuh.
#pragma once

#include "layernorm/row_norm.cuh"

namespace kiln {

// x: [m, k]. w: [k], constant. y: [m, k]. Rows start on 16-byte boundaries. constants_early: false
// moves the reads of w behind the PDL wait.
template <typename X, typename W, int VECTORS, int CTAS, bool LOOP, bool PDL>
__global__ void __launch_bounds__(max_norm_threads<VECTORS, CTAS>(),
                                  min_norm_ctas<VECTORS, CTAS, LOOP, X, W>())
    rmsnorm_fp32(const X* x, const W* w, X* y, float eps, int m, int k, bool constants_early) {
  const NormShape shape{static_cast<uint32>(m), static_cast<uint32>(k), eps, constants_early};
  const MatrixRows<X> source{x, shape.k, shape.k};
  const StoreRows<X> sink{y, shape.k};
  if constexpr (VECTORS == 0) {
    normalize_long_rows<PDL>(source, w, sink, shape);
  } else {
    normalize_rows<VECTORS, CTAS, LOOP, PDL>(source, w, sink, shape);
  }
}

}  // namespace kiln
