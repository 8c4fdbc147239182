// Selected positions of rows as positions in pages, and those that are none as -1.
// May live here: this kernel alone.
//
// A thread takes one selected position: what bounds the kernel is that an SM looks up one address a
// cycle, so a few positions are spread over all of them in narrow CTAs. Launch: block (THREADS),
// grid (rows, ceil(k / THREADS)).
#pragma once

#include "prelude/division.cuh"
#include "prelude/global.cuh"
#include "prelude/index.cuh"
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"

namespace kiln {

// Which of the arrays are of int64.
enum : uint32 { kWideIndices = 1, kWidePages = 2, kWideRaw = 4 };

// Address of element `index` of an array of int64 (`wide`) or int32.
__device__ __forceinline__ char* index_address(void* array, int64 index, bool wide) {
  return static_cast<char*>(array) + (index << (wide ? 3 : 2));
}

// Into an array of int64 (`wide`) or int32, which takes the lower half.
__device__ __forceinline__ void store_index(char* address, int64 value, bool wide) {
  if (wide) {
    store_int64(reinterpret_cast<int64*>(address), value);
  } else {
    store_4(address, static_cast<uint32>(value));
  }
}

// scores: [rows, width]. indices, page_indices, raw_indices (null: not wanted): [rows, k].
// page_table: [rows, pages], with pages * page_size >= width. Rows are strided.
template <int THREADS, bool PDL>
__global__ void __launch_bounds__(THREADS)
    filter_topk_pages(const float* scores, int64 scores_row_stride, void* indices,
                      int64 indices_row_stride, const int* page_table, int64 table_row_stride,
                      void* page_indices, int64 pages_row_stride, void* raw_indices,
                      int64 raw_row_stride, int page_size, int k, int width, uint32 flags) {
  launch_dependents<PDL>();
  const int64 row = blockIdx.x;
  const uint32 i = blockIdx.y * THREADS + threadIdx.x;
  // Everything that the parameters decide is ready when the wait returns: read after it, they come
  // from a cold constant cache, which is a quarter of the time of a decode step's call.
  char* from = index_address(indices, row * indices_row_stride + i, (flags & kWideIndices) != 0);
  char* paged = index_address(page_indices, row * pages_row_stride + i, (flags & kWidePages) != 0);
  char* raw = raw_indices == nullptr
                  ? nullptr
                  : index_address(raw_indices, row * raw_row_stride + i, (flags & kWideRaw) != 0);
  const float* row_scores = scores + row * scores_row_stride;
  const int* row_table = page_table + row * table_row_stride;
  Divisor page(static_cast<uint32>(page_size));
  uint32 positions = static_cast<uint32>(width);
  pin<PDL>(from);
  pin<PDL>(paged);
  pin<PDL>(raw);
  pin<PDL>(row_scores);
  pin<PDL>(row_table);
  pin<PDL>(page.value);
  pin<PDL>(page.reciprocal);
  pin<PDL>(positions);
  pin<PDL>(flags);
  const bool exists = i < static_cast<uint32>(k);
  wait_for_prerequisites<PDL>();
  if (!exists)
    return;

  const int64 index = load_index(from, 0, (flags & kWideIndices) != 0);
  bool valid = index >= 0 && index < positions;
  const uint32 at = valid ? static_cast<uint32>(index) : 0;
  uint32 place;
  const uint32 page_of_row = page.divide(at, place);
  int entry = 0;
  if (valid) {
    const float score = load_element(row_scores + at);
    entry = load_int(row_table + page_of_row);
    valid = score > __uint_as_float(0xff800000u);  // No NaN is above -inf.
  }
  const int64 position = static_cast<int64>(entry) * page.value + place;
  store_index(paged, valid ? position : -1, (flags & kWidePages) != 0);
  if (raw != nullptr)
    store_index(raw, valid ? int64{at} : -1, (flags & kWideRaw) != 0);
}

}  // namespace kiln
