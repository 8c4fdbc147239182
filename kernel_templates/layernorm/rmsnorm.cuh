// y = (x * inv) * w over the rows of a matrix, inv = 1 / sqrt(mean of x^2 + eps).
// May live here: this kernel alone.
//
// Launch: see row_norm.cuh; VECTORS 0 is for rows of more than 8,192 elements, in blocks of 1,024
// threads. Grid (CTAs), clusters of CTAS, no dynamic shared memory.
#pragma once

#include "layernorm/row_norm.cuh"

namespace kiln {

// x: [m, k], rows x_row_stride elements apart. w: [k], constant. y: [m, k]. Rows start on 16-byte
// boundaries. constants_early: false moves the reads of w behind the PDL wait.
template <typename X, typename W, int VECTORS, int CTAS, bool PDL>
__global__ void __launch_bounds__(max_norm_threads<VECTORS, CTAS>(), 1)
    rmsnorm(const X* x, int64 x_row_stride, const W* w, X* y, float eps, int m, int k,
            bool constants_early) {
  const NormShape shape{static_cast<uint32>(m), static_cast<uint32>(k), eps, constants_early};
  const MatrixRows<X> source{x, x_row_stride};
  const StoreRows<X> sink{y, shape.k};
  if constexpr (VECTORS == 0) {
    normalize_long_rows<PDL>(source, w, sink, shape);
  } else {
    normalize_rows<VECTORS, CTAS, PDL>(source, w, sink, shape);
  }
}

}  // namespace kiln
