// The loop over rows for many rows: as normalize_rows in row_norm.cuh, but the copy engine brings
// the rows to shared memory, STAGES of them on the way for each CTA.
// May live here: that loop alone.
//
// Launch: as row_norm.cuh with one CTA and one row at a time, and dynamic shared memory for STAGES
// rows of the source.
#pragma once

#include "layernorm/row_norm.cuh"
#include "prelude/bulk_copy.cuh"
#include "prelude/cluster.cuh"
#include "prelude/shared.cuh"

namespace kiln {

// A ring of STAGES rows in dynamic shared memory, each with a barrier that ends its copy.
template <int STAGES, class Source>
class RowRing {
 public:
  // Called by all threads, which then meet at a barrier before anyone waits.
  __device__ __forceinline__ RowRing(uint32 rows, uint32 barriers, const Source& source)
      : rows_(rows), barriers_(barriers), row_bytes_(source.row_bytes()) {
    if (threadIdx.x == 0) {
#pragma unroll
      for (int s = 0; s < STAGES; ++s)
        init_byte_barrier(barriers_ + s * 8);
    }
  }
  // Called by one thread, when nobody reads the stage any more.
  __device__ __forceinline__ void fetch(uint32 stage, const Source& source, uint32 row,
                                        unsigned long long policy) const {
    const uint32 barrier = barriers_ + stage * 8;
    arrive_expecting(barrier, row_bytes_);
    copy_to_shared(rows_ + stage * row_bytes_, source.row(row), row_bytes_, barrier, policy);
  }
  // The shared address of the row, once it is there. `round` counts the stage's rows from 0.
  __device__ __forceinline__ uint32 wait(uint32 stage, uint32 round) const {
    wait_for_bytes(barriers_ + stage * 8, round % 2);
    return rows_ + stage * row_bytes_;
  }

 private:
  uint32 rows_;
  uint32 barriers_;
  uint32 row_bytes_;
};

template <int VECTORS, int STAGES, bool PDL, class Source, class Sink, typename W>
__device__ __forceinline__ void normalize_streamed_rows(const Source& source, const W* w,
                                                        const Sink& sink, const NormShape& shape) {
  using X = typename Source::Element;
  extern __shared__ uint4 rows[];
  __shared__ RowSumStorage<1> storage;
  __shared__ alignas(8) uint32 barriers[STAGES][2];
  launch_dependents<PDL>();
  if (only_pads<PDL>(sink))
    return;
  const uint32 vectors = shape.k / 8;
  const uint32 warps = blockDim.x / kWarpLanes;
  const uint32 warp = threadIdx.x / kWarpLanes;
  uint32 vector[VECTORS];
  bool inside[VECTORS];
#pragma unroll
  for (int j = 0; j < VECTORS; ++j) {
    vector[j] = (warp + j * warps) * kVectorsPerSegment + threadIdx.x % kWarpLanes;
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
  const RowRing<STAGES, Source> ring(shared_address(rows), shared_address(barriers), source);
  RowSum<VECTORS, 1> row_sum(storage, (vectors + kVectorsPerSegment - 1) / kVectorsPerSegment, warp,
                             warps);
  const float k = static_cast<float>(shape.k);
  const unsigned long long policy = read_once_policy();
  if (!PDL || shape.constants_early)
    load_weights();
  __syncthreads();
  wait_for_prerequisites<PDL>();

  const uint32 step = gridDim.x;
  if (threadIdx.x == 0) {
    for (uint32 s = 0; s < STAGES && blockIdx.x + s * step < shape.m; ++s)
      ring.fetch(s, source, blockIdx.x + s * step, policy);
  }
  typename Source::RowWeights next;
  source.load_row_weights(blockIdx.x, next);
  if (PDL && !shape.constants_early)
    load_weights();
  pad_on_the_way(sink);

  uint32 stage = 0;
  uint32 round = 0;
  for (uint32 row = blockIdx.x; row < shape.m; row += step) {
    const typename Source::RowWeights row_weights = next;
    source.load_row_weights(min(row + step, shape.m - 1), next);
    const uint32 staged = ring.wait(stage, round);
    Vector8<X> values[VECTORS] = {};
    float chains[VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      if (inside[j])
        values[j] = source.values(staged + vector[j] * sizeof(Vector8<X>), row_weights);
      float terms[8];
      to_float(values[j], terms);
      chains[j] = add_squares(terms, 0.0f);  // Past the end of the row, of zeros.
    }
    // Behind the barrier of this sum, everyone has read the stage.
    const float inverse = inverse_rms(row_sum(chains), k, shape.eps);
    if (threadIdx.x == 0 && shape.m - row > STAGES * step)
      ring.fetch(stage, source, row + STAGES * step, policy);
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
      keep_packed(weights[j]);
      sink.store(row, vector[j], inside[j], normalize<X>(values[j], inverse, weights[j]));
    }
    if (++stage == STAGES) {
      stage = 0;
      ++round;
    }
  }
}

}  // namespace kiln
