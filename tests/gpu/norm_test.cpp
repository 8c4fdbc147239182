// docs/kernel_contracts.md, sections 2 and 6: the norms over bf16 rows and mxfp8_quantize, bit for
// bit against the CPU references. A fused op and its unfused pair meet the same expected bytes.
#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "reference/bf16.hpp"
#include "reference/mxfp8.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/norm_case.hpp"
#include "tests/gpu/support/random.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr std::int64_t kRowCounts[] = {1,  2,  3,  5,  6,   7,   8,   9,    31,   32,   33,
                                       48, 64, 96, 97, 128, 129, 256, 1000, 4095, 4096, 4097};
constexpr std::int64_t kSanitizedRowCounts[] = {1, 3, 33, 129};
constexpr std::int64_t kGap = 24;

TEST_CASE("A norm agrees with the reference bit for bit at every row count and magnitude",
          "[norm]") {
  const NormOp op = GENERATE(from_range(std::begin(kNormOps), std::end(kNormOps)));
  const float magnitude = GENERATE(1e-37F, 4e-36F, 1e-7F, 1e-3F, 1.0F, 448.0F, 1e3F, 1e10F);
  CAPTURE(op.name, magnitude);
  const NormData data(op, 5120, magnitude);
  for (const std::int64_t m : kRowCounts) {
    for (const std::int64_t gap : {std::int64_t{0}, kGap}) {
      NormBatch batch(data, m, gap);
      for (const bool pdl : {true, false}) {
        for (const NormMode mode : {NormMode::kEager, NormMode::kReplay}) {
          // All combinations, except that the largest batches take turns.
          if (m > 1000 && (pdl != (gap == 0) || (mode == NormMode::kReplay) != pdl)) {
            continue;
          }
          CAPTURE(m, gap, pdl, mode == NormMode::kReplay);
          REQUIRE(run_norm(data, batch, m, pdl, mode) == "");
        }
      }
    }
  }
}

TEST_CASE("A norm is right at every kind of width", "[norm]") {
  const NormOp op = GENERATE(from_range(std::begin(kNormOps), std::end(kNormOps)));
  const std::int64_t k =
      // Of 2304 and 5152, a cluster's last warp has nothing, while its CTAs go from row to row.
      GENERATE(32, 64, 96, 128, 256, 288, 512, 1280, 1312, 2048, 2304, 4096, 5152, 7168, 8160,
               8192);
  CAPTURE(op.name, k);
  const NormData data(op, k, 1.0F);
  for (const std::int64_t m : {1, 3, 8, 33, 129, 600, 2500}) {
    CAPTURE(m);
    NormBatch batch(data, m, kGap);
    REQUIRE(run_norm(data, batch, m, true, NormMode::kReplay) == "");
  }
}

TEST_CASE("A norm of rows above 8192 elements, or of few, is right", "[norm]") {
  const NormOp op = GENERATE(from_range(kNormOps, kNormOps + 3));  // Those of any width.
  for (const std::int64_t k : {8, 16, 24, 40, 8200, 8224, 8448, 16384, 20480, 32800}) {
    if (op.quantizes && k % 32 != 0) {
      continue;
    }
    CAPTURE(op.name, k);
    const NormData data(op, k, 1.0F);
    for (const std::int64_t m : {1, 5, 130, 700}) {
      CAPTURE(m);
      NormBatch batch(data, m, kGap);
      REQUIRE(run_norm(data, batch, m, true, NormMode::kReplay) == "");
    }
  }
}

TEST_CASE("A norm is right on the row counts that the memory checkers run", "[norm][sanitize]") {
  const NormOp op = GENERATE(from_range(std::begin(kNormOps), std::end(kNormOps)));
  CAPTURE(op.name);
  for (const std::int64_t k : {1312, 5120}) {
    const NormData data(op, k, 1.0F);
    for (const std::int64_t m : kSanitizedRowCounts) {
      CAPTURE(m, k);
      NormBatch batch(data, m, kGap);
      REQUIRE(run_norm(data, batch, m, true, NormMode::kReplay) == "");
    }
  }
}

TEST_CASE("Every variant of a norm gives the same bits", "[norm][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const NormOp op = GENERATE(from_range(std::begin(kNormOps), std::end(kNormOps)));
  const OpHandle original = gpu.engine.op(op.name);
  std::size_t count = 0;
  for (const Variant& variant : gpu.engine.variants(original, gpu.target())) {
    if (variant.traits[kPdlTrait] == 0) {
      continue;  // The launch below asks for both.
    }
    Op forced = original.op();
    forced.name += "_forced_" + std::to_string(count++);
    forced.choose = [chosen = variant.traits](const Problem&, Traits& traits) {
      for (const TraitSpec& spec : *chosen.specs()) {
        traits.set(spec.name, chosen[spec.name]);
      }
    };
    gpu.engine.register_op(forced);
    const DType pre = op.streams && variant.traits["PRE"] == 0 ? DType::kBF16 : DType::kF32;
    for (const std::int64_t k : {32, 1312, 5120, 8192}) {
      const NormData data(op, k, 1.0F, pre);
      for (const std::int64_t m : kSanitizedRowCounts) {
        NormBatch batch(data, m);
        for (const bool pdl : {true, false}) {
          CAPTURE(to_string(variant), m, k, pdl);
          REQUIRE(run_norm(data, batch, m, pdl, NormMode::kEager, forced.name.c_str()) == "");
        }
      }
    }
  }
  REQUIRE(count >= 3);
}

TEST_CASE("A norm keeps zero rows, NaN, infinities and subnormals apart", "[norm]") {
  const NormOp op = GENERATE(from_range(std::begin(kNormOps), std::end(kNormOps)));
  constexpr std::int64_t kWidth = 1280;
  CAPTURE(op.name);
  const auto row_size = static_cast<std::size_t>(op.streams ? 4 * kWidth : kWidth);
  std::vector<std::uint16_t> x =
      random_bf16(static_cast<std::size_t>(NormData::kRows) * row_size, 1.0F, 7);
  const auto row = [&](std::size_t index) {
    return x.begin() + static_cast<std::ptrdiff_t>(index * row_size);
  };
  const auto fill = [&](std::size_t index, std::size_t count, std::uint16_t bits) {
    std::fill_n(row(index), count, bits);
  };
  fill(1, row_size, 0x0000);
  fill(2, row_size, 0x8000);
  fill(4, row_size, 0x0001);  // The smallest subnormal.
  *(row(5) + 17) = 0x7FC0;    // One NaN in a group.
  fill(6, 32, 0x7FC0);        // A group of NaN.
  fill(7, 32, 0xFFFF);        // Of another NaN.
  *(row(8) + 3) = 0x7F80;     // +inf
  *(row(9) + 1279) = 0xFF80;  // -inf
  *(row(10)) = 0x7F80;        // Both in one group.
  *(row(10) + 1) = 0xFF80;
  fill(11, row_size, 0x7F7F);  // The largest finite value: overflows.
  fill(12, 64, 0x0000);        // Zero groups in a random row.
  fill(13, 64, 0x0080);        // The smallest normal.
  fill(14, 64, 0x0040);        // Half of it.
  std::mt19937 generator(11);
  for (auto it = row(15); it != row(80); ++it) {
    *it = static_cast<std::uint16_t>(generator());  // Any bits at all.
  }
  const NormData data(op, kWidth, x);
  for (const std::int64_t m : {8, 100, 1000}) {
    NormBatch batch(data, m);
    for (const bool pdl : {true, false}) {
      CAPTURE(m, pdl);
      REQUIRE(run_norm(data, batch, m, pdl, NormMode::kEager) == "");
      REQUIRE(run_norm(data, batch, m, pdl, NormMode::kReplay) == "");
    }
  }
}

TEST_CASE("The weights of the streams may be bf16", "[norm]") {
  for (const NormOp& op : kNormOps) {
    if (!op.streams) {
      continue;
    }
    const NormData data(op, 5120, 1.0F, DType::kBF16);
    for (const std::int64_t m : {1, 8, 48, 97, 1000}) {
      CAPTURE(op.name, m);
      NormBatch batch(data, m, kGap);
      REQUIRE(run_norm(data, batch, m, true, NormMode::kReplay) == "");
    }
  }
}

TEST_CASE("Scales may begin at any byte", "[norm][sanitize]") {
  for (const NormOp& op : kNormOps) {
    if (!op.quantizes) {
      continue;
    }
    const NormData data(op, 1312, 1.0F);
    for (const std::int64_t m : {1, 31, 70, 129}) {
      CAPTURE(op.name, m);
      NormBatch batch(data, m, 0, 1);
      REQUIRE(run_norm(data, batch, m, true, NormMode::kReplay) == "");
    }
  }
}

TEST_CASE("A norm takes 65,536 rows and rows more than 2^31 elements apart", "[norm]") {
  const NormOp op = GENERATE(from_range(std::begin(kNormOps), std::end(kNormOps)));
  CAPTURE(op.name);
  {
    const NormData data(op, 512, 1.0F);
    NormBatch batch(data, 65536);
    REQUIRE(run_norm(data, batch, 65536, true, NormMode::kEager) == "");
  }
  const NormData data(op, 256, 1.0F);
  NormBatch batch(data, 3, (std::int64_t{1} << 30) + 8);
  REQUIRE(run_norm(data, batch, 3, true, NormMode::kEager) == "");
}

TEST_CASE("A norm writes outputs of more than 2^31 elements", "[norm]") {
  const NormOp op = GENERATE(from_range(kNormOps, kNormOps + 3));  // Those of any width.
  CAPTURE(op.name);
  const NormData data(op, 8192, 1.0F);
  const std::int64_t m = 262'145;  // 2^31 + 8192 elements.
  NormBatch batch(data, m);
  REQUIRE(run_norm(data, batch, m, true, NormMode::kEager) == "");
}

TEST_CASE("The scales of a row may lie more than 2^32 bytes apart", "[norm]") {
  Gpu& gpu = Gpu::instance();
  constexpr std::int64_t kWidth = (std::int64_t{1} << 30) + 256;
  constexpr std::int64_t kBlocks = kWidth / 128;
  constexpr std::int64_t kGroup = 32;
  const Buffer x(std::size_t{kWidth} * 2);
  const GuardedBuffer q(std::size_t{kWidth});
  const GuardedBuffer sf(std::size_t{kBlocks} * 512);
  x.fill(0x3F);  // 0.74609375 everywhere, but for the last group.
  const std::vector<std::uint16_t> last(std::size_t{kGroup}, reference::to_bf16(448.0F));
  x.upload(last.data(), last.size() * 2, x.bytes() - last.size() * 2);
  q.poison(0xA5);
  sf.poison(0xA5);
  gpu.engine.launch(
      "mxfp8_quantize",
      {Tensor(x.data(), DType::kBF16, {1, kWidth}), Tensor(q.data(), DType::kE4M3, {1, kWidth}),
       Tensor(sf.data(), DType::kE8M0, {kBlocks * 512})},
      gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE((q.canaries_intact() && sf.canaries_intact()));
  const std::uint8_t scale = reference::mxfp8_scale(0.74609375F);
  const std::vector<std::uint8_t> scales = sf.download();
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const bool is_last = i == scales.size() - 512 + 3;
    const int want = is_last ? 127 : i % 512 < 4 ? scale : 0;  // Row 0 of each block of scales.
    wrong += scales[i] != want ? 1 : 0;
  }
  REQUIRE(wrong == 0);
  const std::vector<std::uint8_t> quantized = q.download();
  const std::uint8_t code = reference::to_e4m3(0.74609375F * reference::mxfp8_multiplier(scale));
  REQUIRE(std::count(quantized.begin(), quantized.end() - kGroup, code) == kWidth - kGroup);
  REQUIRE(std::count(quantized.end() - kGroup, quantized.end(), 0x7E) == kGroup);
}

TEST_CASE("An empty batch of a norm launches nothing and touches nothing", "[norm][sanitize]") {
  for (const NormOp& op : kNormOps) {
    const NormData data(op, 32, 1.0F);
    NormBatch batch(data, 0);
    batch.poison(0xA5);
    batch.launch();
    Gpu::instance().stream.synchronize();
    REQUIRE(batch.check(data, 0) == "");
  }
}

}  // namespace
}  // namespace kiln::gpu
