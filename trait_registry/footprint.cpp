#include "trait_registry/footprint.hpp"

#include <algorithm>
#include <cstddef>

namespace kiln::registry {
namespace {

// Products of two strides or positions; both are below 2^62.
__extension__ using Wide = __int128;

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - ((a % b != 0 && a < 0) ? 1 : 0);
}
std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return -floor_div(-a, b);
}

// The smallest x >= 0 with low <= (step * x) mod modulus <= high, or -1. Requires 0 <= step <
// modulus and 0 <= low <= high < modulus. Euclid's algorithm: when no multiple of step lies in the
// interval, some multiple of the modulus must be passed first, and the number of times is the same
// question, modulo step.
std::int64_t first_residue_in(std::int64_t step, std::int64_t modulus, std::int64_t low,
                              std::int64_t high) {
  if (low == 0) {
    return 0;
  }
  if (step == 0) {
    return -1;
  }
  if (step >
      modulus / 2) {  // Walk the other way round, so that each level at least halves the modulus.
    return first_residue_in(modulus - step, modulus, modulus - high, modulus - low);
  }
  const std::int64_t direct = ceil_div(low, step);
  if (static_cast<Wide>(direct) * step <= high) {
    return direct;
  }
  const std::int64_t wraps =
      first_residue_in((step - modulus % step) % step, step, low % step, high % step);
  if (wraps < 0) {
    return -1;
  }
  const Wide target = static_cast<Wide>(wraps) * modulus + low;
  return static_cast<std::int64_t>((target + step - 1) / step);
}

// Finds whether some sum of i_k * stride_k with 0 <= i_k < count_k lies in [low, high]. Everything
// below asks it this question.
class SumSearch {
 public:
  void add(std::int64_t count, std::int64_t stride) {
    axes_[static_cast<std::size_t>(size_++)] = {count, stride};
  }

  bool reaches(std::int64_t low, std::int64_t high) {
    simplify(low, high);
    return search(0, low, high);
  }

 private:
  Repeat& axis(int i) { return axes_[static_cast<std::size_t>(i)]; }

  // Removes axes without changing the answer.
  void simplify(std::int64_t& low, std::int64_t& high) {
    std::sort(axes_.begin(), axes_.begin() + size_,
              [](const Repeat& a, const Repeat& b) { return a.stride > b.stride; });
    // An axis that steps no further than the window is wide leaves no gap: it widens the window.
    while (size_ > 0 && axis(size_ - 1).stride <= high - low + 1) {
      --size_;
      low -= (axis(size_).count - 1) * axis(size_).stride;
    }
    // An axis whose steps the next smaller axis can fill continues that one.
    for (int i = size_ - 2; i >= 0; --i) {
      const Repeat large = axis(i);
      Repeat& small = axis(i + 1);
      if (large.stride % small.stride == 0 && large.stride / small.stride <= small.count) {
        small.count += (large.count - 1) * (large.stride / small.stride);
        std::copy(axes_.begin() + i + 1, axes_.begin() + size_, axes_.begin() + i);
        --size_;
      }
    }
    // The longest two first: search tries the others value by value.
    std::sort(axes_.begin(), axes_.begin() + size_,
              [](const Repeat& a, const Repeat& b) { return a.count < b.count; });
  }

  // Over the axes from `first` on. All strides are greater than the window's width.
  bool search(int first, std::int64_t low, std::int64_t high) {
    switch (size_ - first) {
      case 0:
        return low <= 0 && high >= 0;
      case 1:
        return search_one(axis(first), low, high);
      case 2:
        return search_two(axis(first), axis(first + 1), low, high);
      default:
        break;
    }
    std::int64_t rest = 0;
    for (int i = first + 1; i < size_; ++i) {
      rest += (axis(i).count - 1) * axis(i).stride;
    }
    const Repeat here = axis(first);
    const auto [from, to] = values_that_can_reach(here, low - rest, high);
    for (std::int64_t i = from; i <= to; ++i) {
      if (search(first + 1, low - i * here.stride, high - i * here.stride)) {
        return true;
      }
    }
    return false;
  }

  struct Range {
    std::int64_t from, to;
  };

  // The indices of an axis whose multiple lies in [low, high].
  static Range values_that_can_reach(const Repeat& axis, std::int64_t low, std::int64_t high) {
    return {std::max<std::int64_t>(0, ceil_div(low, axis.stride)),
            std::min(axis.count - 1, floor_div(high, axis.stride))};
  }

  static bool search_one(const Repeat& axis, std::int64_t low, std::int64_t high) {
    const auto [from, to] = values_that_can_reach(axis, low, high);
    return from <= to;
  }

  // Once i is such that the window, moved by i * a.stride, meets [0, (b.count - 1) * b.stride], it
  // holds a reachable multiple of b.stride exactly if it holds any: it is narrower than b.stride,
  // so it cannot both meet that range and hold a multiple outside it. So the question is one of
  // residues.
  static bool search_two(const Repeat& a, const Repeat& b, std::int64_t low, std::int64_t high) {
    const auto [from, to] = values_that_can_reach(a, low - (b.count - 1) * b.stride, high);
    if (from > to) {
      return false;
    }
    // Is (high - i * a.stride) mod b.stride < width for some i = from + x?
    const std::int64_t width = high - low + 1;
    const auto modulo = [&](std::int64_t value) {
      return value - floor_div(value, b.stride) * b.stride;
    };
    const std::int64_t start = modulo(high - from * a.stride);
    if (start < width) {
      return true;
    }
    const std::int64_t step = modulo(-a.stride);
    const std::int64_t x =
        first_residue_in(step, b.stride, b.stride - start, b.stride - start + width - 1);
    return x >= 0 && x <= to - from;
  }

  std::array<Repeat, std::size_t{2} * Tensor::kMaxRank> axes_{};
  int size_ = 0;
};

constexpr std::int64_t kLargestSpan = std::int64_t{1} << 60;

}  // namespace

std::optional<Footprint> make_footprint(std::uint64_t begin, std::int64_t element_bytes,
                                        const std::array<Repeat, Tensor::kMaxRank>& repeats,
                                        int axes) noexcept {
  Footprint result;
  result.begin = begin;
  result.row_bytes = element_bytes;
  result.span = element_bytes;
  for (int i = 0; i < axes; ++i) {
    const Repeat& axis = repeats[static_cast<std::size_t>(i)];
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(axis.count - 1, axis.stride, &reach) ||
        reach > kLargestSpan - result.span) {
      return std::nullopt;
    }
    result.span += reach;
    if (axis.count > 1) {
      result.repeats[static_cast<std::size_t>(result.axes++)] = axis;
    }
  }
  const auto end = result.repeats.begin() + result.axes;
  std::sort(result.repeats.begin(), end,
            [](const Repeat& a, const Repeat& b) { return a.stride > b.stride; });
  // Axes without gaps lengthen the row. Behind them are those that repeat it where it is.
  auto gapless = std::find_if(result.repeats.begin(), end,
                              [](const Repeat& axis) { return axis.stride == 0; });
  const auto still = gapless;
  while (gapless != result.repeats.begin() && (gapless - 1)->stride == result.row_bytes) {
    result.row_bytes *= (--gapless)->count;
  }
  result.dense = gapless == result.repeats.begin();
  result.axes -= static_cast<int>(still - gapless);
  std::rotate(gapless, still, end);
  return result;
}

bool share_a_byte(const Footprint& a, const Footprint& b) noexcept {
  if (!spans_intersect(a, b)) {
    return false;
  }
  // A byte of a equals one of b when the sum of a's steps less the sum of b's lies in this window.
  // Counting b's indices from their ends makes that one sum of positive steps.
  const auto distance = static_cast<std::int64_t>(b.begin - a.begin);
  const std::int64_t b_reach = b.span - b.row_bytes;
  SumSearch sums;
  for (int i = 0; i < a.axes; ++i) {
    sums.add(a.repeats[static_cast<std::size_t>(i)].count,
             a.repeats[static_cast<std::size_t>(i)].stride);
  }
  for (int i = 0; i < b.axes; ++i) {
    sums.add(b.repeats[static_cast<std::size_t>(i)].count,
             b.repeats[static_cast<std::size_t>(i)].stride);
  }
  return sums.reaches(distance + b_reach - (a.row_bytes - 1),
                      distance + b_reach + (b.row_bytes - 1));
}

bool overlaps_itself(const Footprint& footprint) noexcept {
  const auto& repeats = footprint.repeats;
  const auto axes = static_cast<std::size_t>(footprint.axes);
  // Nested axes, each stepping over all that the smaller ones span, cannot collide.
  std::int64_t inner = footprint.row_bytes;
  bool nested = true;
  for (std::size_t i = axes; i-- > 0;) {
    nested = nested && repeats[i].stride >= inner;
    inner += (repeats[i].count - 1) * repeats[i].stride;
  }
  if (nested) {
    return false;
  }
  // Two rows collide when the difference of their index vectors steps less than a row. Its first
  // non-zero component may be taken as positive; each choice of that component is one search.
  for (std::size_t first = 0; first < axes; ++first) {
    SumSearch sums;
    std::int64_t offset = -repeats[first].stride;
    sums.add(repeats[first].count - 1, repeats[first].stride);
    for (std::size_t i = first + 1; i < axes; ++i) {
      sums.add(2 * repeats[i].count - 1, repeats[i].stride);
      offset += (repeats[i].count - 1) * repeats[i].stride;
    }
    if (sums.reaches(offset - (footprint.row_bytes - 1), offset + (footprint.row_bytes - 1))) {
      return true;
    }
  }
  return false;
}

}  // namespace kiln::registry
