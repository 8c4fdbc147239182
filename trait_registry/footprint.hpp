#pragma once

/// \file
/// Which bytes a strided tensor occupies, and whether two tensors share one.

#include <array>
#include <cstdint>
#include <optional>

#include <kiln/tensor.hpp>

namespace kiln::registry {

/// One axis along which a pattern of bytes repeats.
struct Repeat {
  std::int64_t count = 1;
  std::int64_t stride = 0;  ///< In bytes; not negative.
};

/// Where a tensor's bytes lie.
struct Extent {
  std::uint64_t begin = 0;  ///< Address of the first byte.
  std::int64_t span = 0;    ///< From the first byte to one past the last.
  bool dense = false;       ///< Every byte of the span is the tensor's.
};

/// The bytes of one tensor that has elements: `row_bytes` bytes in a row, repeated along each axis.
struct Footprint : Extent {
  std::int64_t row_bytes = 0;  ///< At least 1.
  int axes = 0;
  std::array<Repeat, Tensor::kMaxRank> repeats{};  ///< Only axes with a count above 1.
};

/// The footprint of a tensor at `begin`. Counts are at least 1, strides in bytes are not negative,
/// and an axis whose stride is `element_bytes` may be among `repeats`. Nothing when the tensor
/// would be larger than an address space (2^60 bytes).
std::optional<Footprint> make_footprint(std::uint64_t begin, std::int64_t element_bytes,
                                        const std::array<Repeat, Tensor::kMaxRank>& repeats,
                                        int axes) noexcept;

/// Whether the spans intersect (an empty one does not): exact for two dense tensors, else only
/// necessary for a shared byte.
inline bool spans_intersect(const Extent& a, const Extent& b) noexcept {
  return a.span > 0 && b.span > 0 && a.begin < b.begin + static_cast<std::uint64_t>(b.span) &&
         b.begin < a.begin + static_cast<std::uint64_t>(a.span);
}

/// Whether the two share a byte, exactly. Takes time logarithmic in the counts when the two have at
/// most two gapped axes of different strides between them (two row-strided matrices, say, or any
/// two views of one buffer of rows), else times the product of the remaining axes' counts, smallest
/// first.
bool share_a_byte(const Footprint& a, const Footprint& b) noexcept;

/// Whether two different elements of the tensor lie on a common byte, exactly.
bool overlaps_itself(const Footprint& footprint) noexcept;

}  // namespace kiln::registry
