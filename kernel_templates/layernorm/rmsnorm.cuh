// y = (x * inv) * w over rows of bf16, inv = 1 / sqrt(mean of x^2 + eps).
// May live here: this kernel alone.
//
// Launch: see row_norm.cuh; VECTORS 0 is for rows of more than 8,192 elements, in blocks of 1,024
// threads. Grid (CTAs), clusters of CTAS, no dynamic shared memory.
#pragma once

#include "layernorm/row_norm.cuh"

namespace kiln {

// x: [m, k], rows x_row_stride elements apart. w: [k], constant. y: [m, k]. Rows start on 16-byte
// boundaries. constants_early: false moves the reads of w behind the PDL wait.
template <int VECTORS, int CTAS, bool LOOP, bool PDL>
__global__ void __launch_bounds__(max_norm_threads<VECTORS, CTAS>(),
                                  min_norm_ctas<VECTORS, CTAS, LOOP, bf16, bf16>())
    rmsnorm(const bf16* x, int64 x_row_stride, const bf16* w, bf16* y, float eps, int m, int k,
            bool constants_early) {
  const NormShape shape{static_cast<uint32>(m), static_cast<uint32>(k), eps, constants_early};
  const MatrixRows<bf16> source{x, x_row_stride, shape.k};
  const StoreRows<bf16> sink{y, shape.k};
  if constexpr (VECTORS == 0) {
    normalize_long_rows<PDL>(source, w, sink, shape);
  } else {
    normalize_rows<VECTORS, CTAS, LOOP, PDL>(source, w, sink, shape);
  }
}

}  // namespace kiln
