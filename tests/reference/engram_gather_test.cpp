#include "reference/engram_gather.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/mxfp8.hpp"
#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

TEST_CASE("e4m3 and e8m0 have the values of their formats") {
  CHECK(e4m3_to_float(0x00) == 0.0F);
  CHECK(std::signbit(e4m3_to_float(0x80)));
  CHECK(e4m3_to_float(0x01) == 0x1p-9F);
  CHECK(e4m3_to_float(0x07) == 7 * 0x1p-9F);
  CHECK(e4m3_to_float(0x08) == 0x1p-6F);
  CHECK(e4m3_to_float(0x38) == 1.0F);
  CHECK(e4m3_to_float(0xB9) == -1.125F);
  CHECK(e4m3_to_float(0x7E) == 448.0F);
  CHECK(std::isnan(e4m3_to_float(0x7F)));
  CHECK(std::isnan(e4m3_to_float(0xFF)));
  CHECK(e8m0_to_float(0) == 0x1p-127F);
  CHECK(e8m0_to_float(127) == 1.0F);
  CHECK(e8m0_to_float(254) == 0x1p127F);
  CHECK(std::isnan(e8m0_to_float(255)));
}

TEST_CASE("Rows are found by their numbers in the whole table, those not here are zeros") {
  // Row r of the table holds r + 1 in its first block and 2 * (r + 1) in its second.
  const std::vector<std::uint8_t> weight = {0x38, 0x38, 0x38, 0x38, 0x40, 0x40, 0x40, 0x40};
  const std::vector<std::uint8_t> scale = {127, 128, 127, 128};
  const EngramTable table = {weight.data(), scale.data(), 10, 2, 4, 2};
  const std::vector<Bf16> out = engram_gather(table, {11, 9, 12, 10, -1});
  std::vector<float> values;
  for (const Bf16 value : out) {
    values.push_back(to_float(value));
  }
  CHECK(values == std::vector<float>{2, 2, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 0, 0, 0, 0});
}

TEST_CASE("A scale that overflows gives infinity, and the least one stays exact") {
  const std::vector<std::uint8_t> weight = {0x7E, 0x01, 0xFE, 0x38};
  const std::vector<std::uint8_t> scale = {254, 0, 254, 255};
  const EngramTable table = {weight.data(), scale.data(), 0, 1, 4, 1};
  const std::vector<Bf16> out = engram_gather(table, {0});
  CHECK(out[0] == 0x7F80);
  CHECK(out[1] == 0);  // 2^-136 is below half of the least bf16.
  CHECK(out[2] == 0xFF80);
  CHECK(std::isnan(to_float(out[3])));
}

TEST_CASE("What mxfp8_quantize wrote comes back within half a step of e4m3") {
  std::vector<Bf16> row;
  for (int i = 0; i < 64; ++i) {
    row.push_back(to_bf16(0.37F * static_cast<float>(i - 20)));
  }
  const Mxfp8 quantized = mxfp8_quantize(row.data(), 64, 1, 64);
  std::vector<std::uint8_t> scale;
  for (const std::int64_t group : {0, 1}) {
    scale.push_back(quantized.sf[mxfp8_scale_index(0, group, 64)]);
  }
  const EngramTable table = {quantized.q.data(), scale.data(), 0, 1, 64, 32};
  const std::vector<Bf16> back = engram_gather(table, {0});
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float least = 0x1p-9F * e8m0_to_float(scale[i / 32]);
    const float step = std::max(std::fabs(to_float(row[i])) / 16, least);
    CHECK(std::fabs(to_float(back[i]) - to_float(row[i])) <= step);
  }
}

}  // namespace
}  // namespace kiln::reference
