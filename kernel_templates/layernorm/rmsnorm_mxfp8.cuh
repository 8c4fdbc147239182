// rmsnorm of bf16 rows, whose result is stored and quantised to MXFP8.
// May live here: this kernel alone.
//
// Launch: as rmsnorm.cuh.
#pragma once

#include "layernorm/row_norm.cuh"

namespace kiln {

// x, w, y, eps, constants_early: as rmsnorm, with k a multiple of 32. q: [m, k]. scales: see
// mxfp8.cuh.
template <int VECTORS, int CTAS, bool LOOP, bool PDL>
__global__ void __launch_bounds__(max_norm_threads<VECTORS, CTAS>(),
                                  min_norm_ctas<VECTORS, CTAS, LOOP, bf16, bf16>())
    rmsnorm_mxfp8(const bf16* x, int64 x_row_stride, const bf16* w, bf16* y, uint8* q,
                  uint8* scales, float eps, int m, int k, bool constants_early) {
  const NormShape shape{static_cast<uint32>(m), static_cast<uint32>(k), eps, constants_early};
  const MatrixRows<bf16> source{x, x_row_stride, shape.k};
  const StoreAndQuantizeRows<VECTORS == 0> sink{y, {q, scales, shape.m, shape.k}};
  if constexpr (VECTORS == 0) {
    normalize_long_rows<PDL>(source, w, sink, shape);
  } else {
    normalize_rows<VECTORS, CTAS, LOOP, PDL>(source, w, sink, shape);
  }
}

}  // namespace kiln
