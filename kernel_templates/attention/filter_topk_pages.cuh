// Selected positions of rows as positions in pages, and those that are none as -1.
// May live here: this kernel alone.
//
// A thread takes ITEMS selected positions of one row, a CTA's width apart. Launch: block
// (kFilterThreads), grid (rows, ceil(k / (kFilterThreads * ITEMS))).
#pragma once

#include "prelude/division.cuh"
#include "prelude/global.cuh"
#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"

namespace kiln {

enum : uint32 { kFilterThreads = 256 };

// Which of the arrays are of int64.
enum : int { kWideIndices = 1, kWidePages = 2, kWideRaw = 4 };

// Element `index` of an array of int64 (`wide`) or int32, which takes the lower half.
__device__ __forceinline__ void store_index(void* array, int64 index, int64 value, bool wide) {
  if (wide) {
    store_int64(static_cast<int64*>(array) + index, value);
  } else {
    store_4(static_cast<int*>(array) + index, static_cast<uint32>(value));
  }
}

// scores: [rows, width]. indices, page_indices, raw_indices (null: not wanted): [rows, k].
// page_table: [rows, pages], with pages * page_size >= width. Rows are strided.
template <int ITEMS, bool PDL>
__global__ void __launch_bounds__(kFilterThreads)
    filter_topk_pages(const float* scores, int64 scores_row_stride, const void* indices,
                      int64 indices_row_stride, const int* page_table, int64 table_row_stride,
                      void* page_indices, int64 pages_row_stride, void* raw_indices,
                      int64 raw_row_stride, int page_size, int k, int width, int flags) {
  launch_dependents<PDL>();
  const int64 row = blockIdx.x;
  const uint32 first = blockIdx.y * (kFilterThreads * ITEMS) + threadIdx.x;
  const uint32 count = static_cast<uint32>(k);
  const float* row_scores = scores + row * scores_row_stride;
  const int* row_table = page_table + row * table_row_stride;
  Divisor page(static_cast<uint32>(page_size));
  pin<PDL>(row_scores);
  pin<PDL>(row_table);
  pin<PDL>(page.reciprocal);
  wait_for_prerequisites<PDL>();

  constexpr uint32 kOutside = 0xffffffffu;
  uint32 at[ITEMS];
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) {
    const uint32 i = first + j * kFilterThreads;
    int64 index = -1;
    if (i < count)
      index = load_index(indices, row * indices_row_stride + i, (flags & kWideIndices) != 0);
    at[j] = index >= 0 && index < width ? static_cast<uint32>(index) : kOutside;
  }
  float score[ITEMS];
  int entry[ITEMS];
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) {
    score[j] = __uint_as_float(0xff800000u);
    entry[j] = 0;
    if (at[j] != kOutside) {
      score[j] = load_element(row_scores + at[j]);
      entry[j] = load_int(row_table + page.divide(at[j]));
    }
  }
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) {
    const uint32 i = first + j * kFilterThreads;
    if (i >= count)
      continue;
    const bool valid = score[j] > __uint_as_float(0xff800000u);  // No NaN is above -inf.
    uint32 place;
    page.divide(at[j], place);
    const int64 paged = static_cast<int64>(entry[j]) * page_size + place;
    store_index(page_indices, row * pages_row_stride + i, valid ? paged : -1,
                (flags & kWidePages) != 0);
    if (raw_indices != nullptr) {
      store_index(raw_indices, row * raw_row_stride + i, valid ? int64{at[j]} : -1,
                  (flags & kWideRaw) != 0);
    }
  }
}

}  // namespace kiln
