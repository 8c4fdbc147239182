// The four hyper-connection streams after a block: out[t, c] = post[t, c] * x[t] + sum over i of
// comb[t, i, c] * residual[t, i].
// May live here: this kernel alone.
//
// A thread computes 8 elements of all four streams of one token. Launch: block (threads), grid
// (ceil(h / 8 / threads), any).
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"
#include "prelude/vector.cuh"
#include "prelude/vector8.cuh"

namespace kiln {

// x: [t, h]. residual, out: [t, 4, h]. post: [t, 4]. comb: [t, 4, 4], source stream first. All
// contiguous and aligned to 16 bytes.
template <bool PDL>
__global__ void __launch_bounds__(256, 4)
    mhc_post_split_h(const bf16* x, const bf16* residual, const float* post, const float* comb,
                     bf16* out, int t, int h) {
  constexpr int kStreams = 4;
  launch_dependents<PDL>();
  const uint32 column = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
  const uint32 width = static_cast<uint32>(h);
  wait_for_prerequisites<PDL>();
  if (column >= width)
    return;

  for (uint32 token = blockIdx.y; token < static_cast<uint32>(t); token += gridDim.y) {
    const int64 stream = static_cast<int64>(token) * kStreams;
    uint32 weights[4 + 16];
    Vector8<bf16> x_vector;
    Vector8<bf16> vectors[kStreams];
    load_16<0>(post + stream, weights);
    load_16<4>(comb + stream * 4, weights);
    load_16<8>(comb + stream * 4 + 4, weights);
    load_16<12>(comb + stream * 4 + 8, weights);
    load_16<16>(comb + stream * 4 + 12, weights);
    load(x + (static_cast<int64>(token) * width + column), x_vector);
#pragma unroll
    for (int i = 0; i < kStreams; ++i)
      load(residual + ((stream + i) * width + column), vectors[i]);

    float x_values[8];
    float values[kStreams][8];
    to_float(x_vector, x_values);
#pragma unroll
    for (int i = 0; i < kStreams; ++i)
      to_float(vectors[i], values[i]);
#pragma unroll
    for (int c = 0; c < kStreams; ++c) {
      float sums[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float first = __fmul_rn(__uint_as_float(weights[4 + c]), values[0][e]);
        sums[e] = __fmaf_rn(__uint_as_float(weights[c]), x_values[e], first);
#pragma unroll
        for (int i = 1; i < kStreams; ++i)
          sums[e] = __fmaf_rn(__uint_as_float(weights[4 + i * 4 + c]), values[i][e], sums[e]);
      }
      Vector8<bf16> result;
      from_float(sums, result);
      store(out + ((stream + c) * width + column), result);
    }
  }
}

}  // namespace kiln
