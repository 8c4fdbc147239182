// docs/kernel_contracts.md, sections 4 and 6: fused_engram_gate, bit for bit against the CPU
// reference, which tests/reference/engram_gate_test.cpp holds against fp64.
#include "reference/engram_gate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/support/forced_variant.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/gpu/support/repeat_rows.hpp"
#include "tests/gpu/support/replayed.hpp"
#include "tests/gpu/support/rsqrt.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr std::int64_t kBlock = 31;  // Tokens of which a batch is made.
constexpr float kEps = 1e-6F;
constexpr float kClamp = 1e-6F;

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Values on the host as fp32, and on the device as the dtype, in which they are exact.
class Values {
 public:
  Values(std::vector<float> wanted, DType type) : dtype(type), floats(std::move(wanted)) {
    if (dtype == DType::kBF16) {
      bits_ = reference::to_bf16s(floats);
      floats = reference::to_floats(bits_.data(), static_cast<std::int64_t>(bits_.size()));
    }
  }
  std::size_t bytes() const { return floats.size() * size(dtype_size(dtype)); }
  const void* data() const {
    return dtype == DType::kBF16 ? static_cast<const void*>(bits_.data()) : floats.data();
  }
  std::unique_ptr<Buffer> on_device() const {
    auto buffer = std::make_unique<Buffer>(bytes());
    buffer->upload(data(), bytes());
    return buffer;
  }

  DType dtype;
  std::vector<float> floats;

 private:
  std::vector<std::uint16_t> bits_;
};

std::vector<float> random_floats(std::int64_t count, float magnitude, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size(count));
  for (float& value : values) {
    value = normal(generator) * magnitude;
  }
  return values;
}

struct Types {
  DType x = DType::kBF16;
  DType kv = DType::kBF16;
  DType q = DType::kBF16;
  DType k = DType::kBF16;
};

/// kBlock tokens on the host and the device, and what comes out of them.
class Data {
 public:
  Data(std::int64_t hc_, std::int64_t d_, float magnitude = 1.0F, Types types = {},
       std::uint64_t seed = 1)
      : Data(hc_, d_, random_floats(kBlock * hc_ * d_, magnitude, seed),
             random_floats(kBlock * (hc_ + 1) * d_, magnitude, seed + 1), types) {}
  Data(std::int64_t hc_, std::int64_t d_, std::vector<float> x_values, std::vector<float> kv_values,
       Types types = {})
      : hc(hc_),
        d(d_),
        x(std::move(x_values), types.x),
        kv(std::move(kv_values), types.kv),
        q(random_floats(hc * d, 1.0F, 77), types.q),
        k(random_floats(hc * d, 1.0F, 78), types.k),
        x_device(x.on_device()),
        kv_device(kv.on_device()),
        q_device(q.on_device()),
        k_device(k.on_device()) {
    const reference::EngramGate shape = {kBlock, hc, d, kEps, kClamp};
    expected = std::make_unique<Values>(
        reference::fused_engram_gate(shape, x.floats, kv.floats, q.floats, k.floats, device_rsqrt),
        x.dtype);
  }
  std::size_t x_token_bytes() const { return x.bytes() / kBlock; }
  std::size_t kv_token_bytes() const { return kv.bytes() / kBlock; }

  std::int64_t hc;
  std::int64_t d;
  Values x, kv, q, k;
  std::unique_ptr<Buffer> x_device, kv_device, q_device, k_device;
  std::unique_ptr<Values> expected;
};

/// A batch of t tokens, token i being token (first + i) of the block, which repeats.
class Batch {
 public:
  Batch(const Data& data, std::int64_t t)
      : data_(data),
        t_(t),
        x(size(t) * data.x_token_bytes()),
        kv(size(t) * data.kv_token_bytes()),
        out(size(t) * data.x_token_bytes()) {}

  void set_tokens(std::int64_t first) const {
    repeat_rows(*data_.x_device, data_.x_token_bytes(), size(first), x, size(t_));
    repeat_rows(*data_.kv_device, data_.kv_token_bytes(), size(first), kv, size(t_));
  }
  void launch(bool pdl = true, const std::string& op = "fused_engram_gate",
              const Buffer* q_weight = nullptr) const {
    Gpu& gpu = Gpu::instance();
    const std::int64_t hc = data_.hc;
    const std::int64_t d = data_.d;
    const Tensor x_tensor(x.data(), data_.x.dtype, {t_, hc, d});
    const Tensor kv_tensor(kv.data(), data_.kv.dtype, {t_, (hc + 1) * d});
    const Tensor q_tensor((q_weight != nullptr ? *q_weight : *data_.q_device).data(), data_.q.dtype,
                          {hc, d});
    const Tensor k_tensor(data_.k_device->data(), data_.k.dtype, {hc, d});
    const Tensor out_tensor(out.data(), data_.x.dtype, {t_, hc, d});
    LaunchOptions options;
    options.pdl = pdl;
    options.constants_ready = q_weight == nullptr;
    gpu.engine.launch(op,
                      {x_tensor, kv_tensor, q_tensor, k_tensor, static_cast<double>(kEps),
                       static_cast<double>(kClamp), out_tensor},
                      gpu.stream.get(), options);
  }

  /// Empty when every bit is right and nothing else was written.
  std::string difference(std::int64_t first) const {
    if (!out.canaries_intact()) {
      return "a canary beside the output was overwritten";
    }
    const std::vector<std::uint8_t> got = out.download();
    const std::size_t bytes = data_.x_token_bytes();
    const auto* const want = static_cast<const std::uint8_t*>(data_.expected->data());
    for (std::int64_t token = 0; token < t_; ++token) {
      const std::uint8_t* const mine = got.data() + size(token) * bytes;
      const std::uint8_t* const theirs = want + size((first + token) % kBlock) * bytes;
      if (!std::equal(mine, mine + bytes, theirs) && !same_values(mine, theirs, bytes)) {
        const auto at = std::mismatch(mine, mine + bytes, theirs).first - mine;
        return "token " + std::to_string(token) + ", byte " + std::to_string(at);
      }
    }
    return "";
  }

 private:
  // Two NaNs are equal whatever their bits.
  bool same_values(const std::uint8_t* a, const std::uint8_t* b, std::size_t bytes) const {
    const auto width = size(dtype_size(data_.x.dtype));
    const auto is_nan = [&](const std::uint8_t* value) {
      const unsigned high = value[width - 2] | static_cast<unsigned>(value[width - 1]) << 8;
      const bool rest = width == 4 && (value[0] | value[1]) != 0;
      return (high & 0x7F80U) == 0x7F80U && ((high & 0x7FU) != 0 || rest);
    };
    for (std::size_t i = 0; i < bytes; i += width) {
      if (!std::equal(a + i, a + i + width, b + i) && !(is_nan(a + i) && is_nan(b + i))) {
        return false;
      }
    }
    return true;
  }

  const Data& data_;
  std::int64_t t_;

 public:
  Buffer x;
  Buffer kv;
  GuardedBuffer out;
};

/// Eagerly, and replayed from two starts with the inputs changed between.
std::string run(const Data& data, std::int64_t t, bool pdl,
                const std::string& op = "fused_engram_gate") {
  const Stream& stream = Gpu::instance().stream;
  const Batch batch(data, t);
  batch.set_tokens(0);
  batch.out.poison(0xA5);
  batch.launch(pdl, op);
  stream.synchronize();
  std::string problem = batch.difference(0);
  if (!problem.empty() || t == 0) {
    return problem;
  }
  const Graph graph(stream, [&] { batch.launch(pdl, op); });
  for (const std::int64_t first : {t * 7 % kBlock, std::int64_t{3}}) {
    batch.set_tokens(first);
    batch.out.poison(0x5A);
    graph.launch(stream);
    stream.synchronize();
    problem = batch.difference(first);
    if (!problem.empty()) {
      return "replayed from token " + std::to_string(first) + ": " + problem;
    }
  }
  return "";
}

TEST_CASE("fused_engram_gate agrees with the reference bit for bit at every row count", "[gate]") {
  const float magnitude = GENERATE(1e-37F, 4e-36F, 1e-7F, 1e-3F, 1.0F, 448.0F, 1e3F, 1e10F);
  CAPTURE(magnitude);
  const Data data(4, 5120, magnitude);
  for (const std::int64_t t :
       {1, 2, 3, 5, 6, 7, 8, 9, 31, 32, 33, 48, 64, 96, 97, 1000, 4095, 4096, 4097}) {
    if (t > 1000 && magnitude != 1.0F) {
      continue;
    }
    CAPTURE(t);
    REQUIRE(run(data, t, true) == "");
    REQUIRE(run(data, t, false) == "");
  }
}

TEST_CASE("fused_engram_gate takes every combination of types", "[gate]") {
  const DType x = GENERATE(DType::kBF16, DType::kF32);
  const DType kv = GENERATE(DType::kBF16, DType::kF32);
  for (const DType q : {DType::kBF16, DType::kF32}) {
    for (const DType k : {DType::kBF16, DType::kF32}) {
      for (const std::int64_t d : {1280, 5128}) {
        const Data data(4, d, 1.0F, {x, kv, q, k});
        for (const std::int64_t t : {1, 33, 300}) {
          CAPTURE(dtype_name(x), dtype_name(kv), dtype_name(q), dtype_name(k), d, t);
          REQUIRE(run(data, t, t != 33) == "");
        }
      }
    }
  }
}

TEST_CASE("fused_engram_gate takes any number of streams and every kind of width", "[gate]") {
  for (const std::int64_t hc : {1, 2, 5}) {
    for (const std::int64_t d : {8, 24, 256, 264, 2048, 5120, 5128, 7168, 8192, 8200, 16384}) {
      const Data data(hc, d);
      for (const std::int64_t t : {1, 5, 140}) {
        CAPTURE(hc, d, t);
        REQUIRE(run(data, t, true) == "");
      }
    }
  }
}

TEST_CASE("fused_engram_gate is right on the row counts that the memory checkers run",
          "[gate][sanitize]") {
  for (const std::int64_t d : {264, 5120}) {
    const Data data(4, d);
    for (const std::int64_t t : {0, 1, 3, 33, 129}) {
      CAPTURE(d, t);
      REQUIRE(run(data, t, true) == "");
    }
  }
}

TEST_CASE("Every variant of fused_engram_gate gives the same bits", "[gate][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const OpHandle original = gpu.engine.op("fused_engram_gate");
  std::size_t count = 0;
  for (const Variant& variant : gpu.engine.variants(original, gpu.target())) {
    if (variant.traits[kPdlTrait] == 0) {
      continue;  // Asked for below.
    }
    const Op forced = forced_variant(original.op(), variant.traits, std::to_string(count++));
    gpu.engine.register_op(forced);
    const bool f32 = variant.traits["X"] != 0;
    const Data data(3, 1288, 1.0F,
                    f32 ? Types{DType::kF32, DType::kF32, DType::kBF16, DType::kF32} : Types{});
    for (const std::int64_t t : {1, 33, 129}) {
      for (const bool pdl : {true, false}) {
        CAPTURE(to_string(variant), t, pdl);
        REQUIRE(run(data, t, pdl, forced.name) == "");
      }
    }
  }
  REQUIRE(count >= 4);
}

TEST_CASE("fused_engram_gate keeps NaN, infinities and zeros to their rows", "[gate]") {
  constexpr std::int64_t kWidth = 1280;
  std::vector<float> x = random_floats(kBlock * 4 * kWidth, 1.0F, 5);
  std::vector<float> kv = random_floats(kBlock * 5 * kWidth, 1.0F, 6);
  const float infinity = std::numeric_limits<float>::infinity();
  const auto x_row = [&](std::int64_t token, std::int64_t stream) {
    return x.begin() + (token * 4 + stream) * kWidth;
  };
  const auto kv_row = [&](std::int64_t token, std::int64_t row) {
    return kv.begin() + (token * 5 + row) * kWidth;
  };
  *(x_row(1, 2) + 9) = std::numeric_limits<float>::quiet_NaN();
  *(kv_row(2, 1) + 1279) = std::numeric_limits<float>::quiet_NaN();
  *(kv_row(3, 4) + 5) = std::numeric_limits<float>::quiet_NaN();  // One element of a value.
  *x_row(4, 0) = infinity;
  *(kv_row(5, 3) + 3) = -infinity;
  *(kv_row(6, 4) + 3) = -infinity;
  std::fill_n(x_row(7, 1), kWidth, 0.0F);
  std::fill_n(kv_row(8, 2), kWidth, -0.0F);
  std::fill_n(x_row(9, 1), kWidth, 3e38F);
  const Data data(4, kWidth, x, kv);
  for (const std::int64_t t : {10, 200}) {
    CAPTURE(t);
    REQUIRE(run(data, t, true) == "");
    REQUIRE(run(data, t, false) == "");
  }
}

TEST_CASE("fused_engram_gate takes tensors of more than 2^31 elements", "[gate]") {
  const Data data(4, 8192);
  REQUIRE(run(data, 65'600, true) == "");  // 2.15e9 in x, 2.69e9 in kv.
}

// Outputs and x hold nothing of the round before.
std::function<void()> poisoning(const Batch& batch) {
  return [&batch] {
    batch.x.fill(0xFF);
    batch.out.poison(0xA5);
  };
}

TEST_CASE("fused_engram_gate waits for its producer, and the next kernel for it", "[pdl]") {
  const std::int64_t t = GENERATE(1, 8, 130);
  CAPTURE(t);
  const Data data(4, 1280);
  const Data other(4, 1280, 1.0F, {}, 9);
  const Batch batch(data, t);
  const Buffer x(batch.x.bytes());
  const Buffer x2(batch.x.bytes());
  batch.set_tokens(0);
  repeat_rows(*data.x_device, data.x_token_bytes(), 0, x, size(t));
  repeat_rows(*other.x_device, other.x_token_bytes(), 0, x2, size(t));
  const Buffer copied(batch.x.bytes());
  eagerly_and_replayed(
      poisoning(batch),
      [&] {
        late_copy(batch.out.data(), copied.data(), copied.bytes(), kDelayNs);
        late_copy(x.data(), batch.x.data(), x.bytes(), kDelayNs);
        batch.launch();
        late_copy(x2.data(), batch.x.data(), x2.bytes(), 0);
      },
      [&] {
        REQUIRE(batch.difference(0) == "");
        std::vector<std::uint8_t> old(copied.bytes());
        copied.download(old.data(), old.size());
        REQUIRE(std::all_of(old.begin(), old.end(), [](std::uint8_t b) { return b == 0xA5; }));
      });
}

TEST_CASE("fused_engram_gate reads fresh weights after the wait when the call says so", "[pdl]") {
  const std::int64_t d = GENERATE(1280, 8192);
  const Data data(4, d);
  const Batch batch(data, 8);
  batch.set_tokens(0);
  const Buffer x(batch.x.bytes());
  repeat_rows(*data.x_device, data.x_token_bytes(), 0, x, 8);
  const Buffer q(data.q.bytes());
  eagerly_and_replayed(
      poisoning(batch),
      [&] {
        late_copy(x.data(), batch.x.data(), x.bytes(), 0);
        late_copy(data.k_device->data(), q.data(), q.bytes(), 0);
        late_copy(data.q_device->data(), q.data(), q.bytes(), kDelayNs);
        batch.launch(true, "fused_engram_gate", &q);
      },
      [&] { REQUIRE(batch.difference(0) == ""); });
}

}  // namespace
}  // namespace kiln::gpu
