// Vectors of 8 elements whose type is known at run time, as fp32.
// May live here: loads and stores of vectors of bf16 or fp32 by a flag that is uniform in the grid.
#pragma once

#include "prelude/types.cuh"
#include "prelude/vector8.cuh"

namespace kiln {

// Elements [element, element + 8) of an array of fp32 (`wide`) or bf16.
__device__ __forceinline__ void load_any(const void* array, int64 element, bool wide,
                                         float (&values)[8]) {
  if (wide) {
    Vector8<float> vector;
    load(static_cast<const float*>(array) + element, vector);
    to_float(vector, values);
  } else {
    Vector8<bf16> vector;
    load(static_cast<const bf16*>(array) + element, vector);
    to_float(vector, values);
  }
}

// Each value is rounded once; to fp32, not at all.
__device__ __forceinline__ void store_any(void* array, int64 element, bool wide,
                                          const float (&values)[8]) {
  if (wide) {
    Vector8<float> vector;
    from_float(values, vector);
    store(static_cast<float*>(array) + element, vector);
  } else {
    Vector8<bf16> vector;
    from_float(values, vector);
    store(static_cast<bf16*>(array) + element, vector);
  }
}

}  // namespace kiln
