// docs/kernel_contracts.md, sections 2 and 6: mhc_post_split_h, bit for bit against the CPU
// reference.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reference/norm.hpp"
#include "tests/gpu/support/compare.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/gpu/support/random.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr std::int64_t kBlock = 127;

/// kBlock tokens, and what comes out. A batch repeats them, from any of them on.
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

  std::string run(std::int64_t t, bool pdl) const;

 private:
  friend class Batch;
  std::int64_t h_;
  Buffer x_;
  Buffer residual_;
  Buffer post_;
  Buffer comb_;
  std::vector<std::uint16_t> expected_;
};

/// Device memory of a batch of t tokens, token i being token (first + i) % kBlock of a case.
class Batch {
 public:
  Batch(const Case& data, std::int64_t t)
      : data_(&data),
        t_(t),
        x(bytes(data.x_)),
        residual(bytes(data.residual_)),
        post(bytes(data.post_)),
        comb(bytes(data.comb_)),
        out(bytes(data.residual_)) {}

  void set_tokens(std::int64_t first) const {
    repeat(data_->x_, x, first);
    repeat(data_->residual_, residual, first);
    repeat(data_->post_, post, first);
    repeat(data_->comb_, comb, first);
    KILN_CU(cuCtxSynchronize);
  }

  /// Writes the output, or another one of the same size.
  void launch(bool pdl, const GuardedBuffer* to = nullptr) const {
    Gpu& gpu = Gpu::instance();
    const std::int64_t h = data_->h_;
    const Tensor x_tensor(x.data(), DType::kBF16, {t_, h});
    const Tensor residual_tensor(residual.data(), DType::kBF16, {t_, 4, h});
    const Tensor post_tensor(post.data(), DType::kF32, {t_, 4});
    const Tensor comb_tensor(comb.data(), DType::kF32, {t_, 4, 4});
    const Tensor out_tensor((to != nullptr ? *to : out).data(), DType::kBF16, {t_, 4, h});
    LaunchOptions options;
    options.pdl = pdl;
    gpu.engine.launch("mhc_post_split_h",
                      {x_tensor, residual_tensor, post_tensor, comb_tensor, out_tensor},
                      gpu.stream.get(), options);
  }

  /// Empty when every bit is right and nothing else was written.
  std::string check(std::int64_t first) const {
    return out.canaries_intact() ? difference(out.download_u16(), first)
                                 : "a canary beside the output was overwritten";
  }

  std::string difference(std::span<const std::uint16_t> got, std::int64_t first) const {
    const auto token_size = static_cast<std::size_t>(4 * data_->h_);
    for (std::int64_t token = 0; token < t_; ++token) {
      const auto mine = got.subspan(static_cast<std::size_t>(token) * token_size, token_size);
      const auto want =
          std::span(data_->expected_)
              .subspan(static_cast<std::size_t>((first + token) % kBlock) * token_size, token_size);
      if (std::memcmp(mine.data(), want.data(), mine.size_bytes()) != 0) {
        const std::string wrong = first_difference(mine, want, static_cast<std::size_t>(data_->h_));
        if (!wrong.empty()) {
          return "token " + std::to_string(token) + ": " + wrong;
        }
      }
    }
    return "";
  }

 private:
  std::size_t bytes(const Buffer& block) const {
    return block.bytes() / kBlock * static_cast<std::size_t>(t_);
  }

  void repeat(const Buffer& block, const Buffer& to, std::int64_t first) const {
    const std::size_t token = block.bytes() / kBlock;
    for (std::int64_t at = 0; at < t_;) {
      const std::int64_t from = (first + at) % kBlock;
      const std::int64_t count = std::min(kBlock - from, t_ - at);
      KILN_CU(cuMemcpyDtoD, to.address() + token * static_cast<std::size_t>(at),
              block.address() + token * static_cast<std::size_t>(from),
              token * static_cast<std::size_t>(count));
      at += count;
    }
  }

  const Case* data_;
  std::int64_t t_;

 public:
  Buffer x, residual, post, comb;
  GuardedBuffer out;
};

// Eagerly, and from two starts with the inputs changed between replays.
std::string Case::run(std::int64_t t, bool pdl) const {
  Gpu& gpu = Gpu::instance();
  const Batch batch(*this, t);
  batch.set_tokens(0);
  batch.out.poison(0xA5);
  batch.launch(pdl);
  gpu.stream.synchronize();
  std::string problem = batch.check(0);
  if (!problem.empty() || t == 0) {
    return problem;
  }
  const Graph graph(gpu.stream, [&] { batch.launch(pdl); });
  for (const std::int64_t first : {t * 7 % kBlock, std::int64_t{50}}) {
    batch.set_tokens(first);
    batch.out.poison(0x5A);
    graph.launch(gpu.stream);
    gpu.stream.synchronize();
    problem = batch.check(first);
    if (!problem.empty()) {
      return "replay from token " + std::to_string(first) + ": " + problem;
    }
  }
  return "";
}

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

TEST_CASE("mhc_post_split_h writes outputs of more than 2^31 elements", "[norm]") {
  const Case post = Case::random(8192, 1.0F);
  const Batch batch(post, 65'537);  // 2^31 + 32768 elements.
  batch.set_tokens(0);
  batch.out.poison(0xA5);
  batch.launch(true);
  Gpu::instance().stream.synchronize();
  REQUIRE(batch.check(0) == "");
}

/// Five kernels, each released early by the one before: one input comes late; the op; a late copy
/// of its output; the op again, from other tokens into the same output; and one that overwrites
/// these tokens.
class Chain {
 public:
  explicit Chain(std::int64_t t)
      : post_(Case::random(1280, 1.0F)), data_(post_, t), other_(post_, t), batch_(post_, t) {
    data_.set_tokens(3);
  }

  void reset() const {
    for (const Buffer* input : {&batch_.x, &batch_.residual, &batch_.post, &batch_.comb}) {
      input->fill(0xFF);
    }
    other_.set_tokens(60);
    batch_.out.poison(0xA5);
    copied_.poison(0x5A);
  }

  /// `late` is the number of the input that its producer stores late.
  void record(int late) const {
    const std::pair<const Buffer*, const Buffer*> inputs[] = {{&data_.x, &batch_.x},
                                                              {&data_.residual, &batch_.residual},
                                                              {&data_.post, &batch_.post},
                                                              {&data_.comb, &batch_.comb}};
    for (int i = 1; i <= 4; ++i) {  // The late one last.
      const auto& [from, to] = inputs[(late + i) % 4];
      late_copy(from->data(), to->data(), from->bytes(), i == 4 ? kDelayNs : 0);
    }
    batch_.launch(true);
    late_copy(batch_.out.data(), copied_.data(), copied_.bytes(), kDelayNs);
    other_.launch(true, &batch_.out);
    late_copy(data_.residual.data(), other_.residual.data(), other_.residual.bytes(), 0);
  }

  void check() const {
    REQUIRE(batch_.difference(copied_.download_u16(), 3) == "");
    REQUIRE(other_.difference(batch_.out.download_u16(), 60) == "");
    REQUIRE(batch_.out.canaries_intact());
  }

 private:
  Case post_;
  Batch data_, other_, batch_;
  GuardedBuffer copied_{batch_.out.bytes()};
};

TEST_CASE("mhc_post_split_h waits for its producer, and its successors for it", "[pdl]") {
  Gpu& gpu = Gpu::instance();
  const std::int64_t t = GENERATE(1, 8, 130);
  const int late = GENERATE(0, 1, 2, 3);
  CAPTURE(t, late);
  const Chain chain(t);
  for (int round = 0; round < 5; ++round) {
    chain.reset();
    chain.record(late);
    gpu.stream.synchronize();
    chain.check();
  }
  const Graph graph(gpu.stream, [&] { chain.record(late); });
  for (int round = 0; round < 5; ++round) {
    chain.reset();
    graph.launch(gpu.stream);
    gpu.stream.synchronize();
    chain.check();
  }
}

}  // namespace
}  // namespace kiln::gpu
