// docs/kernel_contracts.md, sections 2 and 6: mhc_post_split_h, bit for bit against the CPU
// reference.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/norm.hpp"
#include "tests/gpu/support/compare.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/random.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr std::int64_t kBlock = 127;

/// kBlock tokens, repeated to any batch, and what comes out.
class Case {
 public:
  Case(std::int64_t h, std::vector<std::uint16_t> x, std::vector<std::uint16_t> residual,
       float weights)
      : h_(h),
        x_(x.size() * 2),
        residual_(residual.size() * 2),
        post_(kBlock * 16),
        comb_(kBlock * 64) {
    // Scaled by a number that bf16 does not have, so that weights use all of their mantissa.
    const auto random = [&](std::int64_t count, std::uint64_t seed) {
      const std::vector<std::uint16_t> bits =
          random_bf16(static_cast<std::size_t>(count), weights, seed);
      std::vector<float> values = reference::to_floats(bits.data(), count);
      std::transform(values.begin(), values.end(), values.begin(),
                     [](float value) { return value * 1.2345678F; });
      return values;
    };
    const std::vector<float> post = random(kBlock * 4, 5);
    const std::vector<float> comb = random(kBlock * 16, 6);
    expected_ =
        reference::mhc_post_split_h(x.data(), residual.data(), post.data(), comb.data(), kBlock, h);
    x_.upload(x.data(), x_.bytes());
    residual_.upload(residual.data(), residual_.bytes());
    post_.upload(post.data(), post_.bytes());
    comb_.upload(comb.data(), comb_.bytes());
  }

  static Case random(std::int64_t h, float magnitude) {
    return {h, random_bf16(static_cast<std::size_t>(kBlock * h), magnitude, 1),
            random_bf16(static_cast<std::size_t>(kBlock * 4 * h), magnitude, 2), 1.0F};
  }

  std::string run(std::int64_t t, bool pdl) const {
    Gpu& gpu = Gpu::instance();
    const Buffer x = repeated(x_, t);
    const Buffer residual = repeated(residual_, t);
    const Buffer post = repeated(post_, t);
    const Buffer comb = repeated(comb_, t);
    KILN_CU(cuCtxSynchronize);
    const GuardedBuffer out(static_cast<std::size_t>(t * 4 * h_) * 2);
    const Tensor x_tensor(x.data(), DType::kBF16, {t, h_});
    const Tensor residual_tensor(residual.data(), DType::kBF16, {t, 4, h_});
    const Tensor post_tensor(post.data(), DType::kF32, {t, 4});
    const Tensor comb_tensor(comb.data(), DType::kF32, {t, 4, 4});
    const Tensor out_tensor(out.data(), DType::kBF16, {t, 4, h_});
    LaunchOptions options;
    options.pdl = pdl;
    const auto launch = [&] {
      gpu.engine.launch("mhc_post_split_h",
                        {x_tensor, residual_tensor, post_tensor, comb_tensor, out_tensor},
                        gpu.stream.get(), options);
    };
    out.poison(0xA5);
    launch();
    gpu.stream.synchronize();
    std::string problem = difference(out, t);
    if (problem.empty() && t > 0) {
      const Graph graph(gpu.stream, launch);
      out.poison(0x5A);
      graph.launch(gpu.stream);
      gpu.stream.synchronize();
      problem = difference(out, t);
    }
    return problem;
  }

 private:
  static Buffer repeated(const Buffer& block, std::int64_t t) {
    const std::size_t token = block.bytes() / kBlock;
    Buffer out(token * static_cast<std::size_t>(t));
    for (std::int64_t first = 0; first < t; first += kBlock) {
      KILN_CU(cuMemcpyDtoD, out.address() + token * static_cast<std::size_t>(first),
              block.address(), token * static_cast<std::size_t>(std::min(kBlock, t - first)));
    }
    return out;
  }

  std::string difference(const GuardedBuffer& out, std::int64_t t) const {
    if (!out.canaries_intact()) {
      return "a canary beside the output was overwritten";
    }
    const std::vector<std::uint16_t> got = out.download_u16();
    const auto columns = static_cast<std::size_t>(h_);
    for (std::int64_t first = 0; first < t; first += kBlock) {
      const std::size_t count = static_cast<std::size_t>(std::min(kBlock, t - first)) * 4 * columns;
      const std::string wrong = first_difference(
          std::span(got).subspan(static_cast<std::size_t>(first) * 4 * columns, count),
          std::span(expected_).first(count), columns);
      if (!wrong.empty()) {
        return "from token " + std::to_string(first) + ": " + wrong;
      }
    }
    return "";
  }

  std::int64_t h_;
  Buffer x_;
  Buffer residual_;
  Buffer post_;
  Buffer comb_;
  std::vector<std::uint16_t> expected_;
};

TEST_CASE("mhc_post_split_h agrees with the reference bit for bit at every row count", "[norm]") {
  const float magnitude = GENERATE(1e-37F, 4e-36F, 1e-7F, 1e-3F, 1.0F, 448.0F, 1e3F, 1e10F);
  CAPTURE(magnitude);
  const Case post = Case::random(5120, magnitude);
  for (const std::int64_t t :
       {1, 2, 3, 5, 6, 7, 8, 9, 31, 32, 33, 48, 64, 96, 97, 1000, 4095, 4096, 4097}) {
    if (t > 1000 && magnitude != 1.0F) {
      continue;
    }
    CAPTURE(t);
    REQUIRE(post.run(t, true) == "");
    REQUIRE(post.run(t, false) == "");
  }
}

TEST_CASE("mhc_post_split_h takes every kind of width", "[norm][sanitize]") {
  for (const std::int64_t h : {8, 24, 264, 1280, 5128, 7168}) {
    const Case post = Case::random(h, 1.0F);
    for (const std::int64_t t : {0, 1, 3, 33, 129}) {
      CAPTURE(h, t);
      REQUIRE(post.run(t, true) == "");
    }
  }
}

TEST_CASE("mhc_post_split_h takes more tokens than one grid axis holds", "[norm]") {
  const Case post = Case::random(64, 1.0F);
  REQUIRE(post.run(70'001, true) == "");
}

TEST_CASE("mhc_post_split_h keeps NaN, infinities and zeros apart", "[norm]") {
  constexpr std::int64_t kWidth = 64;
  std::vector<std::uint16_t> x = random_bf16(kBlock * kWidth, 1.0F, 1);
  std::vector<std::uint16_t> residual = random_bf16(kBlock * 4 * kWidth, 1.0F, 2);
  const std::uint16_t specials[] = {0x7FC0, 0x7F80, 0xFF80, 0x0000, 0x8000, 0x0001, 0x7F7F};
  for (std::size_t i = 0; i < std::size(specials); ++i) {
    x[i * kWidth + i] = specials[i];
    residual[(i + 20) * 4 * kWidth + 70 + i] = specials[i];
  }
  const Case post(kWidth, x, residual, 1.0F);
  REQUIRE(post.run(kBlock, true) == "");
  REQUIRE(post.run(kBlock, false) == "");
}

}  // namespace
}  // namespace kiln::gpu
