// Root mean square norms: where the values of a row come from, what becomes of the normalised row,
// and the loop over rows that all norms share.
// May live here: sources of rows, sinks, and that loop. Not the order of the sum (row_sum.cuh) or
// MXFP8 (mxfp8.cuh).
//
// A CTA takes blockDim.y rows at once, blockDim.x threads each; with CTAS > 1 the CTAs of a cluster
// share one row instead. Every thread holds VECTORS vectors of 8 elements of a row. With LOOP, rows
// are dealt out round robin along x until none is left, so any grid is right, and the loads of a
// thread's next row are under way while it sums and stores the present one. Without, the grid
// covers all rows: so few registers are needed that other CTAs of the multiprocessor keep the
// memory busy, and they start when one ends, not in step with it. Along y, CTAs from 1 on zero the
// padding of an output that has any; if there are none, the others do it on the way, which takes
// longer.
#pragma once

#include "prelude/bf16.cuh"
#include "prelude/global.cuh"
#include "prelude/mxfp8.cuh"
#include "prelude/pdl.cuh"
#include "prelude/row_sum.cuh"
#include "prelude/types.cuh"
#include "prelude/vector8.cuh"

namespace kiln {

// ---------------------------------------------------------------------------------------------
// Sources. Row<VECTORS> is what one thread has loaded of a row.

// The rows of a matrix. Row strides are in elements.
template <typename X>
struct MatrixRows {
  using Element = X;
  const X* x;
  int64 row_stride;
  uint32 k;

  template <int VECTORS>
  struct Row {
    Vector8<X> vectors[VECTORS];
  };

  template <int VECTORS>
  __device__ __forceinline__ void begin_row(uint32, Row<VECTORS>&) const {}
  template <int VECTORS>
  __device__ __forceinline__ void load_vector(uint32 row, uint32 vector, int j,
                                              Row<VECTORS>& loaded) const {
    load(x + (row * row_stride + vector * 8), loaded.vectors[j]);
  }
  template <int VECTORS>
  __device__ __forceinline__ Vector8<X> values(const Row<VECTORS>& loaded, int j) const {
    return loaded.vectors[j];
  }
};

// Rows that are the weighted sum of four streams of k elements, which lie one after the other in a
// row of x; pre has the four weights of each row.
template <typename PRE>
struct StreamRows {
  using Element = bf16;
  enum : int { kStreams = 4 };
  const bf16* x;
  int64 row_stride;
  const PRE* pre;
  uint32 k;

  template <int VECTORS>
  struct Row {
    Vector8<bf16> vectors[VECTORS][kStreams];
    PRE weights[kStreams];
  };

  template <int VECTORS>
  __device__ __forceinline__ void begin_row(uint32 row, Row<VECTORS>& loaded) const {
#pragma unroll
    for (int c = 0; c < kStreams; ++c)
      loaded.weights[c] = load_element(pre + (static_cast<int64>(row) * kStreams + c));
  }
  template <int VECTORS>
  __device__ __forceinline__ void load_vector(uint32 row, uint32 vector, int j,
                                              Row<VECTORS>& loaded) const {
    const bf16* const first = x + (row * row_stride + vector * 8);
#pragma unroll
    for (int c = 0; c < kStreams; ++c)
      load(first + c * k, loaded.vectors[j][c]);
  }
  template <int VECTORS>
  __device__ __forceinline__ Vector8<bf16> values(const Row<VECTORS>& loaded, int j) const {
    return combine(loaded.vectors[j], loaded.weights);
  }

  // The sum is rounded to bf16 before the norm sees it, as the unfused combine stores it.
  __device__ __forceinline__ static Vector8<bf16> combine(const Vector8<bf16> (&vectors)[kStreams],
                                                          const PRE (&weights)[kStreams]) {
    float sums[8] = {};
#pragma unroll
    for (int c = 0; c < kStreams; ++c) {
      float stream[8];
      to_float(vectors[c], stream);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        sums[i] = __fmaf_rn(stream[i], to_float(weights[c]), sums[i]);
    }
    Vector8<bf16> result;
    from_float(sums, result);
    return result;
  }
};

// ---------------------------------------------------------------------------------------------
// Sinks. Row is where a row goes. store is called by all lanes of a warp, with consecutive vectors;
// one past the end of the row (not `inside`) is not stored.

template <typename Y>
struct StoreRows {
  static constexpr bool kPads = false;
  Y* y;
  uint32 k;

  __device__ __forceinline__ void zero_padding(uint32, uint32) const {}
  using Row = Y*;
  __device__ __forceinline__ Row row(uint32 row) const { return y + static_cast<int64>(row) * k; }
  __device__ __forceinline__ void store(Row row, uint32 vector, bool inside,
                                        const Vector8<Y>& values) const {
    if (inside)
      kiln::store(row + vector * 8, values);
  }
};

template <bool LONG_ROWS>
struct StoreAndQuantizeRows {
  using Matrix = Mxfp8Matrix<LONG_ROWS>;
  static constexpr bool kPads = true;
  bf16* y;
  Matrix matrix;

  __device__ __forceinline__ void zero_padding(uint32 thread, uint32 threads) const {
    matrix.zero_padding(thread, threads);
  }
  struct Row {
    bf16* y;
    typename Matrix::Row quantized;
  };
  __device__ __forceinline__ Row row(uint32 row) const {
    return {y + static_cast<int64>(row) * matrix.k, matrix.row(row)};
  }
  __device__ __forceinline__ void store(const Row& row, uint32 vector, bool inside,
                                        const Vector8<bf16>& values) const {
    const QuantizedVector quantized = quantize(values);
    if (inside)
      kiln::store(row.y + vector * 8, values);
    matrix.store(row.quantized, vector, quantized);
  }
};

// ---------------------------------------------------------------------------------------------
// The loop

struct NormShape {
  uint32 m;
  uint32 k;
  float eps;
  bool constants_early;
};

// y = (x * inv) * w, each product rounded, then once more to y's type.
template <typename Y, typename X, typename W>
__device__ __forceinline__ Vector8<Y> normalize(const Vector8<X>& x, float inverse,
                                                const Vector8<W>& w) {
  float values[8];
  float weights[8];
  to_float(x, values);
  to_float(w, weights);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    values[i] = __fmul_rn(__fmul_rn(values[i], inverse), weights[i]);
  Vector8<Y> result;
  from_float(values, result);
  return result;
}

// True for a CTA that zeroes padding and has no rows; it is then done. PDL: waits first.
template <bool PDL, class Sink>
__device__ __forceinline__ bool only_pads(const Sink& sink) {
  if constexpr (Sink::kPads) {
    if (blockIdx.y > 0) {
      const uint32 block = (blockIdx.y - 1) * gridDim.x + blockIdx.x;
      const uint32 threads = blockDim.x * blockDim.y;
      wait_for_prerequisites<PDL>();
      sink.zero_padding(block * threads + threadIdx.y * blockDim.x + threadIdx.x,
                        (gridDim.y - 1) * gridDim.x * threads);
      return true;
    }
  }
  return false;
}

// Zeroes the padding when no CTA is there for it alone.
template <class Sink>
__device__ __forceinline__ void pad_on_the_way(const Sink& sink) {
  if constexpr (Sink::kPads) {
    if (gridDim.y == 1) {
      const uint32 threads = blockDim.x * blockDim.y;
      sink.zero_padding(blockIdx.x * threads + threadIdx.y * blockDim.x + threadIdx.x,
                        gridDim.x * threads);
    }
  }
}

// Rows of at most 8,192 elements.
template <int VECTORS, int CTAS, bool LOOP, bool PDL, class Source, class Sink, typename W>
__device__ __forceinline__ void normalize_rows(const Source& source, const W* w, const Sink& sink,
                                               const NormShape& shape) {
  using X = typename Source::Element;
  launch_dependents<PDL>();
  if (only_pads<PDL>(sink))
    return;
  const uint32 vectors = shape.k / 8;
  const uint32 warps = blockDim.x / kWarpLanes;
  const uint32 rank = CTAS == 1 ? 0 : blockIdx.x % CTAS;
  const uint32 segment = rank * warps + threadIdx.x / kWarpLanes;
  const uint32 segment_step = CTAS * warps;
  const uint32 step = gridDim.x / CTAS * blockDim.y;
  uint32 first = blockIdx.x / CTAS * blockDim.y;

  uint32 vector[VECTORS];
  bool inside[VECTORS];
#pragma unroll
  for (int j = 0; j < VECTORS; ++j) {
    vector[j] = (segment + j * segment_step) * kVectorsPerSegment + threadIdx.x % kWarpLanes;
    inside[j] = vector[j] < vectors;
  }
  Vector8<W> weights[VECTORS] = {};
  const auto load_weights = [&] {
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      if (inside[j])
        load(w + vector[j] * 8, weights[j]);
    }
  };
  // Rows past the end repeat the last one, since all threads meet at the barriers.
  typename Source::template Row<VECTORS> loaded = {};
  const auto load_row = [&](uint32 row) {
    row = min(row, shape.m - 1);
    source.begin_row(row, loaded);
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      if (inside[j])
        source.load_vector(row, vector[j], j, loaded);
    }
  };

  __shared__ RowSumStorage<CTAS> storage;
  RowSum<VECTORS, CTAS> row_sum(storage, (vectors + kVectorsPerSegment - 1) / kVectorsPerSegment,
                                segment, segment_step);
  const float k = static_cast<float>(shape.k);
  // Held during the sum, more of them would cost the registers of another CTA.
  constexpr bool kHoldsWeights = LOOP || VECTORS * (sizeof(W) + sizeof(X)) <= 8;
  if (kHoldsWeights && (!PDL || shape.constants_early))
    load_weights();
  wait_for_prerequisites<PDL>();
  load_row(first + threadIdx.y);
  if (kHoldsWeights && PDL && !shape.constants_early)
    load_weights();
  pad_on_the_way(sink);

  for (; first < shape.m; first += step) {
    const uint32 row = first + threadIdx.y;
    Vector8<X> values[VECTORS];
    float chains[VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      values[j] = source.values(loaded, j);
      float terms[8];
      to_float(values[j], terms);
      chains[j] = add_squares(terms, 0.0f);  // Past the end of the row, of zeros.
    }
    if (LOOP && first + step < shape.m)
      load_row(row + step);
    if constexpr (VECTORS > 1 || !LOOP) {
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        keep_packed(weights[j]);
        if constexpr (!LOOP)
          keep_packed(values[j]);
      }
    }
    const float inverse = inverse_rms(row_sum(chains), k, shape.eps);
    if constexpr (!kHoldsWeights)
      load_weights();
    if (row < shape.m) {
      const typename Sink::Row to = sink.row(row);
#pragma unroll
      for (int j = 0; j < VECTORS; ++j)
        sink.store(to, vector[j], inside[j], normalize<X>(values[j], inverse, weights[j]));
    }
    if constexpr (!LOOP)
      break;
  }
}

// Rows of any length, by CTAs of 1,024 threads: a chain goes on over the row, which is then read
// again.
template <bool PDL, class Source, class Sink, typename W>
__device__ __forceinline__ void normalize_long_rows(const Source& source, const W* w,
                                                    const Sink& sink, const NormShape& shape) {
  using X = typename Source::Element;
  launch_dependents<PDL>();
  if (only_pads<PDL>(sink))
    return;
  const uint32 vectors = shape.k / 8;
  __shared__ RowSumStorage<1> storage;
  RowSum<1, 1> row_sum(storage, kSegments, threadIdx.x / kWarpLanes, kSegments);
  const float k = static_cast<float>(shape.k);
  wait_for_prerequisites<PDL>();
  pad_on_the_way(sink);

  for (uint32 row = blockIdx.x; row < shape.m; row += gridDim.x) {
    typename Source::template Row<1> loaded;
    float chains[1] = {0.0f};
#pragma unroll 4
    for (uint32 vector = threadIdx.x; vector < vectors; vector += kVectorsPerRow) {
      source.load_vector(row, vector, 0, loaded);
      float terms[8];
      to_float(source.values(loaded, 0), terms);
      chains[0] = add_squares(terms, chains[0]);
    }
    const float inverse = inverse_rms(row_sum(chains), k, shape.eps);
    const typename Sink::Row to = sink.row(row);
    const uint32 end = (vectors + kWarpLanes - 1) / kWarpLanes * kWarpLanes;
#pragma unroll 2
    for (uint32 vector = threadIdx.x; vector < end; vector += kVectorsPerRow) {
      const bool inside = vector < vectors;
      Vector8<W> weights = {};
      loaded = {};
      if (inside) {
        source.load_vector(row, vector, 0, loaded);
        load(w + vector * 8, weights);
      }
      sink.store(to, vector, inside, normalize<X>(source.values(loaded, 0), inverse, weights));
    }
  }
}

// Threads of a CTA at most: those of one row of 8,192 elements.
template <int VECTORS, int CTAS>
__device__ constexpr int max_norm_threads() {
  return int{kVectorsPerRow} / (VECTORS == 0 ? 1 : VECTORS * CTAS);
}

// CTAs of that size that the registers of a multiprocessor are to be enough for. Without LOOP, what
// its threads load at once should be about 64 KiB or more, to keep the memory busy; but 32
// registers are not enough for all, nor for any from sm_100 on.
template <int VECTORS, int CTAS, bool LOOP, typename X, typename W>
__device__ constexpr int min_norm_ctas() {
#if __CUDA_ARCH__ >= 1000
  constexpr int kThreads = 1536;
#else
  constexpr int kThreads = 2048;
#endif
  if (LOOP)
    return VECTORS == 2 ? 2 : 1;
  constexpr bool kFew = VECTORS * (sizeof(X) + sizeof(W)) <= 8;
  return (kFew ? kThreads : 1280) / max_norm_threads<VECTORS, CTAS>();
}

}  // namespace kiln
