// out = x + gate * value, where the gate of a stream is the sigmoid of the signed square root of
// the scaled product of its normalised row and key. May live here: this kernel alone.
//
// A CTA takes one stream of one token after the other. Launch: block (threads), grid (tokens at
// once, hc). VECTORS > 0: every thread holds VECTORS vectors of 8 elements of a row, x and kv are
// of type X, and threads are 32 * ceil(ceil(d / 256) / VECTORS). VECTORS == 0: any d and any types,
// by min(1,024, d / 8) threads, rounded up to a warp; rows are read twice. CTAS: that a
// multiprocessor is to have room for; with 1, where there are no more rows than multiprocessors,
// the next grid's CTAs come to lie beside this one's and not among them.
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"
#include "prelude/row_sums.cuh"
#include "prelude/sigmoid.cuh"
#include "prelude/types.cuh"
#include "prelude/vector8.cuh"
#include "prelude/vector8_any.cuh"

namespace kiln {

enum : int { kGateSums = 3 };  // x * x, key * key, x * (qw * kw) * key
// Which arrays are of fp32, in VECTORS == 0; of the weights, always.
enum : int { kWideX = 1, kWideKv = 2, kWideQ = 4, kWideK = 8 };

struct GateShape {
  uint32 tokens;
  uint32 streams;
  uint32 d;
  float eps;
  float clamp;
  float scale;  // 1 / sqrt(d)
  int wide;
  bool constants_early;

  // First elements of a stream's row in x and out, and of its key and the value in kv.
  __device__ __forceinline__ int64 row(uint32 token, uint32 stream) const {
    return (static_cast<int64>(token) * streams + stream) * d;
  }
  __device__ __forceinline__ int64 key(uint32 token, uint32 stream) const {
    return (static_cast<int64>(token) * (streams + 1) + stream) * d;
  }
  __device__ __forceinline__ int64 value(uint32 token) const { return key(token, streams); }
};

// qw * kw of 8 elements.
__device__ __forceinline__ void load_weights(const void* q_weight, const void* k_weight,
                                             int64 element, int wide, float (&weights)[8]) {
  float k[8];
  load_any(q_weight, element, (wide & kWideQ) != 0, weights);
  load_any(k_weight, element, (wide & kWideK) != 0, k);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    weights[i] = __fmul_rn(weights[i], k[i]);
}

// Adds 8 elements to the chains of the three sums.
__device__ __forceinline__ void add_terms(const float (&x)[8], const float (&key)[8],
                                          const float (&weights)[8], float& x_chain,
                                          float& key_chain, float& dot_chain) {
  x_chain = add_squares(x, x_chain);
  key_chain = add_squares(key, key_chain);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    dot_chain = __fmaf_rn(__fmul_rn(x[i], weights[i]), key[i], dot_chain);
}

// Of a lane's sum, as RowSums deals them out; every lane gets the gate. A NaN stays one.
template <typename Sums>
__device__ __forceinline__ float gate_of(float sum, float d, const GateShape& shape) {
  const float inverse = inverse_rms(sum, d, shape.eps);  // Of the first two sums; else unused.
  const float rstd = __fmul_rn(Sums::template of<0>(inverse), Sums::template of<1>(inverse));
  const float dot = __fmul_rn(__fmul_rn(Sums::template of<2>(sum), rstd), shape.scale);
  const float size = fabsf(dot) < shape.clamp ? shape.clamp : fabsf(dot);
  return sigmoid(copysignf(__fsqrt_rn(size), dot));
}

// values = x + gate * value
__device__ __forceinline__ void add_gated(const float (&x)[8], float gate, float (&values)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i)
    values[i] = __fadd_rn(x[i], __fmul_rn(gate, values[i]));
}

template <typename X, int VECTORS>
struct GateRow {
  Vector8<X> x[VECTORS];
  Vector8<X> key[VECTORS];
  Vector8<X> value[VECTORS];
};

// Where a thread's first vector lies in the rows of a token, and how far on in those of the next
// token that the CTA takes.
template <typename X>
struct GatePlace {
  const X* x;
  const X* key;
  const X* value;
  X* out;
  int64 step;
  int64 kv_step;

  __device__ __forceinline__ GatePlace(const X* x_rows, const X* kv_rows, X* out_rows,
                                       const GateShape& shape, uint32 token, uint32 stream,
                                       uint32 element)
      : x(x_rows + (shape.row(token, stream) + element)),
        key(kv_rows + (shape.key(token, stream) + element)),
        value(kv_rows + (shape.value(token) + element)),
        out(out_rows + (shape.row(token, stream) + element)),
        step(shape.row(gridDim.x, 0)),
        kv_step(shape.key(gridDim.x, 0)) {}

  __device__ __forceinline__ void advance_inputs() {
    x += step;
    key += kv_step;
    value += kv_step;
  }
};

// Ready when the PDL wait returns: what is worked out after it is on the way to the first load.
template <bool PDL, typename X>
__device__ __forceinline__ void pin_before_wait(GatePlace<X>& at, GateShape& shape) {
  pin<PDL>(at.x);
  pin<PDL>(at.key);
  pin<PDL>(at.value);
  pin<PDL>(at.out);
  pin<PDL>(shape.tokens);
  float* const scalars[] = {&shape.eps, &shape.clamp, &shape.scale};
#pragma unroll
  for (float* const scalar : scalars) {
    uint32 bits = __float_as_uint(*scalar);
    pin<PDL>(bits);
    *scalar = __uint_as_float(bits);
  }
}

// Rows of at most 8,192 elements.
template <typename X, int VECTORS, bool PDL>
__device__ __forceinline__ void gate_rows(const X* x, const X* kv, const void* q_weight,
                                          const void* k_weight, X* out, GateShape shape) {
  launch_dependents<PDL>();
  const uint32 vectors = shape.d / 8;
  const uint32 warps = blockDim.x / kWarpLanes;
  const uint32 warp = threadIdx.x / kWarpLanes;
  const uint32 stream = blockIdx.y;
  const uint32 apart = warps * kVectorsPerSegment * 8;  // Elements between a thread's vectors.
  uint32 element[VECTORS];
  bool inside[VECTORS];
#pragma unroll
  for (int j = 0; j < VECTORS; ++j) {
    const uint32 vector = (warp + j * warps) * kVectorsPerSegment + threadIdx.x % kWarpLanes;
    element[j] = vector * 8;
    inside[j] = vector < vectors;
  }
  float weights[VECTORS][8] = {};
  const auto load_all_weights = [&] {
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      if (inside[j])
        load_weights(q_weight, k_weight, static_cast<int64>(stream) * shape.d + element[j],
                     shape.wide, weights[j]);
    }
  };
  GateRow<X, VECTORS> loaded = {};
  GatePlace<X> at(x, kv, out, shape, blockIdx.x, stream, element[0]);
  const auto load_row = [&] {
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      if (inside[j]) {
        load(at.x + j * apart, loaded.x[j]);
        load(at.key + j * apart, loaded.key[j]);
        load(at.value + j * apart, loaded.value[j]);
      }
    }
  };
  using Sums = RowSums<kGateSums, VECTORS>;
  __shared__ RowSumsStorage<kGateSums> storage;
  Sums row_sums(storage, (vectors + kVectorsPerSegment - 1) / kVectorsPerSegment, warp, warps);
  const float d = static_cast<float>(shape.d);
  if (!PDL || shape.constants_early)
    load_all_weights();
  pin_before_wait<PDL>(at, shape);
  wait_for_prerequisites<PDL>();
  load_row();
  if (PDL && !shape.constants_early)
    load_all_weights();

  for (uint32 token = blockIdx.x; token < shape.tokens; token += gridDim.x) {
    Vector8<X> x_vectors[VECTORS];
    Vector8<X> value_vectors[VECTORS];
    float chains[kGateSums * VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      x_vectors[j] = loaded.x[j];
      value_vectors[j] = loaded.value[j];
      float x_values[8];
      float key_values[8];
      to_float(loaded.x[j], x_values);
      to_float(loaded.key[j], key_values);
      chains[j] = chains[VECTORS + j] = chains[2 * VECTORS + j] = 0.0f;
      add_terms(x_values, key_values, weights[j], chains[j], chains[VECTORS + j],
                chains[2 * VECTORS + j]);  // Past the end of the row, of zeros.
    }
    if (token + gridDim.x < shape.tokens) {
      at.advance_inputs();
      load_row();
    }
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      keep_packed(x_vectors[j]);
      keep_packed(value_vectors[j]);
    }
    const float gate = gate_of<Sums>(row_sums(chains), d, shape);
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      float x_values[8];
      float values[8];
      to_float(x_vectors[j], x_values);
      to_float(value_vectors[j], values);
      add_gated(x_values, gate, values);
      Vector8<X> result;
      from_float(values, result);
      if (inside[j])
        store(at.out + j * apart, result);
    }
    at.out += at.step;
  }
}

// Rows of any length and type: a chain goes on over the row, which is then read again.
template <bool PDL>
__device__ __forceinline__ void gate_any_rows(const void* x, const void* kv, const void* q_weight,
                                              const void* k_weight, void* out,
                                              const GateShape& shape) {
  launch_dependents<PDL>();
  const uint32 vectors = shape.d / 8;
  const uint32 stream = blockIdx.y;
  const bool wide_x = (shape.wide & kWideX) != 0;
  const bool wide_kv = (shape.wide & kWideKv) != 0;
  using Sums = RowSums<kGateSums, 1>;
  __shared__ RowSumsStorage<kGateSums> storage;
  Sums row_sums(storage, blockDim.x / kWarpLanes, threadIdx.x / kWarpLanes, 0);
  const float d = static_cast<float>(shape.d);
  wait_for_prerequisites<PDL>();

  for (uint32 token = blockIdx.x; token < shape.tokens; token += gridDim.x) {
    const int64 row = shape.row(token, stream);
    const int64 key = shape.key(token, stream);
    float chains[kGateSums] = {};
    float x_values[8];
    float values[8];
    for (uint32 vector = threadIdx.x; vector < vectors; vector += blockDim.x) {
      float weights[8];
      load_any(x, row + vector * 8, wide_x, x_values);
      load_any(kv, key + vector * 8, wide_kv, values);
      load_weights(q_weight, k_weight, static_cast<int64>(stream) * shape.d + vector * 8,
                   shape.wide, weights);
      add_terms(x_values, values, weights, chains[0], chains[1], chains[2]);
    }
    const float gate = gate_of<Sums>(row_sums(chains), d, shape);
    for (uint32 vector = threadIdx.x; vector < vectors; vector += blockDim.x) {
      load_any(x, row + vector * 8, wide_x, x_values);
      load_any(kv, shape.value(token) + vector * 8, wide_kv, values);
      add_gated(x_values, gate, values);
      store_any(out, row + vector * 8, wide_x, values);
    }
  }
}

template <int VECTORS, int CTAS>
__device__ constexpr int max_gate_threads() {
  return VECTORS == 0 ? 1024 : VECTORS == 1 ? 640 : CTAS == 2 ? 320 : 512;
}

// x, out: [t, hc, d]. kv: [t, (hc + 1) * d], the keys and then the value. q_weight, k_weight:
// [hc, d], constant. scale_bits: those of 1 / sqrt(d) in fp32. constants_early: false moves the
// reads of the weights behind the PDL wait.
template <typename X, int VECTORS, int CTAS, bool PDL>
__global__ void __launch_bounds__(max_gate_threads<VECTORS, CTAS>(), CTAS)
    fused_engram_gate(const void* x, const void* kv, const void* q_weight, const void* k_weight,
                      void* out, float eps, float clamp, int t, int hc, int d, uint32 scale_bits,
                      int wide, bool constants_early) {
  const GateShape shape{static_cast<uint32>(t),
                        static_cast<uint32>(hc),
                        static_cast<uint32>(d),
                        eps,
                        clamp,
                        __uint_as_float(scale_bits),
                        wide,
                        constants_early};
  if constexpr (VECTORS == 0) {
    gate_any_rows<PDL>(x, kv, q_weight, k_weight, out, shape);
  } else {
    gate_rows<X, VECTORS, PDL>(static_cast<const X*>(x), static_cast<const X*>(kv), q_weight,
                               k_weight, static_cast<X*>(out), shape);
  }
}

}  // namespace kiln
