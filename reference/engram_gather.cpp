#include "reference/engram_gather.hpp"

#include <cmath>
#include <cstddef>
#include <limits>

namespace kiln::reference {

float e8m0_to_float(std::uint8_t value) noexcept {
  return value == 255 ? std::numeric_limits<float>::quiet_NaN()
                      : std::ldexp(1.0F, static_cast<int>(value) - 127);
}

std::vector<Bf16> engram_gather(const EngramTable& table, const std::vector<std::int64_t>& ids) {
  const std::int64_t groups = table.dim / table.block;
  std::vector<Bf16> out(ids.size() * static_cast<std::size_t>(table.dim), 0);
  for (std::size_t n = 0; n < ids.size(); ++n) {
    if (ids[n] < table.row_lo || ids[n] - table.row_lo >= table.rows) {
      continue;
    }
    const std::int64_t row = ids[n] - table.row_lo;
    const std::uint8_t* weight = table.weight + row * table.dim;
    Bf16* target = out.data() + n * static_cast<std::size_t>(table.dim);
    for (std::int64_t group = 0; group < groups; ++group) {
      const float factor = e8m0_to_float(table.scale[row * groups + group]);
      for (std::int64_t i = 0; i < table.block; ++i) {
        *target++ = to_bf16(e4m3_to_float(*weight++) * factor);
      }
    }
  }
  return out;
}

}  // namespace kiln::reference
