#include "reference/rope.hpp"

#include <algorithm>
#include <cmath>

namespace kiln::reference {
namespace {

constexpr std::int64_t kHead = 512;
constexpr std::int64_t kPairs = 32;

void rotate(Bf16* pairs, const float* angles) {
  for (std::int64_t i = 0; i < kPairs; ++i) {
    const float even = to_float(pairs[2 * i]);
    const float odd = to_float(pairs[2 * i + 1]);
    const float cosine = angles[2 * i];
    const float sine = angles[2 * i + 1];
    const float odd_sine = odd * sine;
    const float odd_cosine = odd * cosine;
    pairs[2 * i] = to_bf16(std::fma(even, cosine, -odd_sine));
    pairs[2 * i + 1] = to_bf16(std::fma(even, sine, odd_cosine));
  }
}

}  // namespace

std::vector<Bf16> rope(std::vector<Bf16> x, std::int64_t heads, const RopeTable& table,
                       const std::vector<std::int64_t>& positions) {
  Bf16* head = x.data();
  for (const std::int64_t position : positions) {
    const std::int64_t row = std::clamp<std::int64_t>(position, 0, table.rows - 1);
    for (std::int64_t i = 0; i < heads; ++i) {
      rotate(head + kHead - 2 * kPairs, table.freqs + row * 2 * kPairs);
      head += kHead;
    }
  }
  return x;
}

}  // namespace kiln::reference
