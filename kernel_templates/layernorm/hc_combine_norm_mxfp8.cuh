// hc_combine_norm whose result is stored and quantised to MXFP8.
// May live here: this kernel alone.
//
// Launch: as hc_combine_norm.cuh.
#pragma once

#include "layernorm/row_norm.cuh"

namespace kiln {

// x, pre, w, y, eps, constants_early: as hc_combine_norm. q: [m, k]. scales: see mxfp8.cuh.
template <typename PRE, int VECTORS, int CTAS, bool PDL>
__global__ void __launch_bounds__(max_norm_threads<VECTORS, CTAS>(), 1)
    hc_combine_norm_mxfp8(const bf16* x, int64 x_row_stride, const PRE* pre, const bf16* w, bf16* y,
                          uint8* q, uint8* scales, float eps, int m, int k, bool constants_early) {
  const NormShape shape{static_cast<uint32>(m), static_cast<uint32>(k), eps, constants_early};
  const StreamRows<PRE> source{x, x_row_stride, pre, shape.k};
  const StoreAndQuantizeRows<false> sink{y, {q, scales, shape.m, shape.k}};
  normalize_rows<VECTORS, CTAS, true, PDL>(source, w, sink, shape);
}

}  // namespace kiln
