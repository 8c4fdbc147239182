// Products of small matrices on tensor cores.
// May live here: the mma instruction and the layout of its operands. No loads.
#pragma once

#include "prelude/types.cuh"

namespace kiln {

// Sums over 16 products of bf16 in fp32, from 0, for 16 rows of `a` and 8 columns of `b`, by a
// whole warp. Lane l holds of row l / 4 words a[0] and a[2], of row l / 4 + 8 words a[1] and a[3],
// and of column l / 4 words b[0] and b[1], two elements each. It gets the sums of row l / 4,
// columns l % 4 * 2 and the next, in sums[0] and sums[1], and those of row l / 4 + 8 in sums[2] and
// sums[3]. Which 16 elements of k the words of the four lanes of a row hold does not matter, if
// only those of `b` hold the same: an order of summation within the 16 cannot be seen
// (reference/tensor_core.hpp).
__device__ __forceinline__ void tensor_core_sums(const uint32 (&a)[4], uint32 b0, uint32 b1,
                                                 float (&sums)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
#endif
}

}  // namespace kiln
