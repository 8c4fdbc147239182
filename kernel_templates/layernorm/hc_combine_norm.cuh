// rmsnorm of the weighted sum of four hyper-connection streams.
// May live here: this kernel alone.
//
// Launch: see row_norm.cuh. Grid (CTAs), clusters of CTAS, no dynamic shared memory.
#pragma once

#include "layernorm/row_norm.cuh"

namespace kiln {

// x: [m, 4 * k], rows x_row_stride elements apart. pre: [m, 4]. w: [k], constant. y: [m, k]. k: at
// most 8,192. constants_early: false moves the reads of w behind the PDL wait.
template <typename PRE, int VECTORS, int CTAS, bool PDL>
__global__ void __launch_bounds__(max_norm_threads<VECTORS, CTAS>(), 1)
    hc_combine_norm(const bf16* x, int64 x_row_stride, const PRE* pre, const bf16* w, bf16* y,
                    float eps, int m, int k, bool constants_early) {
  const NormShape shape{static_cast<uint32>(m), static_cast<uint32>(k), eps, constants_early};
  const StreamRows<PRE> source{x, x_row_stride, pre, shape.k};
  const StoreRows<bf16> sink{y, shape.k};
  normalize_rows<VECTORS, CTAS, true, PDL>(source, w, sink, shape);
}

}  // namespace kiln
