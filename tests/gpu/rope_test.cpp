// docs/kernel_contracts.md, sections 5 and 6: q_rope_store and rope_inplace, bit for bit against
// the CPU reference. Both meet the same expected bits.
#include "reference/rope.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/support/compare.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/gpu/support/random.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

using reference::Bf16;

constexpr std::int64_t kHead = 512;
constexpr std::int64_t kPositions = 300;
constexpr Bf16 kPadding = 0xA5A5;

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

std::vector<float> angles(std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> turn(-3.2, 3.2);
  std::vector<float> out;
  for (std::int64_t i = 0; i < kPositions * 32; ++i) {
    const double angle = turn(generator);
    out.push_back(static_cast<float>(std::cos(angle)));
    out.push_back(static_cast<float>(std::sin(angle)));
  }
  return out;
}

/// Some lie before the table and some behind it.
std::vector<std::int64_t> random_positions(std::int64_t rows, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<std::int64_t> any(-20, kPositions + 20);
  std::vector<std::int64_t> out(size(rows));
  std::generate(out.begin(), out.end(), [&] { return any(generator); });
  return out;
}

/// Sizes of a call: rows lie `heads + gap` heads apart.
struct Shape {
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t q_gap = 0;
  std::int64_t out_gap = 0;
};

/// Inputs on the host, and what comes out.
struct Values {
  Values(const Shape& shape, std::vector<Bf16> heads, std::uint64_t seed)
      : x(std::move(heads)), freqs(angles(seed)), positions(random_positions(shape.rows, seed)) {
    expect(shape.heads);
  }
  Values(const Shape& shape, float magnitude, std::uint64_t seed)
      : Values(shape, random_bf16(size(shape.rows * shape.heads * kHead), magnitude, seed), seed) {}

  void expect(std::int64_t heads) {
    y = reference::rope(x, heads, {freqs.data(), kPositions}, positions);
  }

  std::vector<Bf16> x;  ///< [rows, heads, 512]
  std::vector<float> freqs;
  std::vector<std::int64_t> positions;
  std::vector<Bf16> y;
};

/// Device memory of a call. In gaps between rows lies kPadding, which must stay there.
class Call {
 public:
  explicit Call(const Shape& shape, bool wide = true)
      : shape_(shape),
        wide_(wide),
        q_(size(shape.rows * q_stride()) * 2),
        freqs_(size(kPositions * 32) * 8),
        positions_(size(shape.rows) * 8 + 8),
        out_(size(shape.rows * out_stride()) * 2),
        in_place_(size(shape.rows * out_stride()) * 2) {}

  void set(const Values& values) const {
    const std::vector<Bf16> q = spread(values.x, q_stride());
    const std::vector<Bf16> in_place = spread(values.x, out_stride());
    upload(q_, q);
    if (!in_place.empty()) {
      KILN_CU(cuMemcpyHtoD, reinterpret_cast<CUdeviceptr>(in_place_.data()), in_place.data(),
              in_place.size() * 2);
    }
    out_.poison(0xA5);
    upload(freqs_, values.freqs);
    const std::vector<std::int32_t> narrow(values.positions.begin(), values.positions.end());
    if (!narrow.empty()) {
      // One element off any larger alignment.
      wide_ ? positions_.upload(values.positions.data(), narrow.size() * 8, 8)
            : positions_.upload(narrow.data(), narrow.size() * 4, 4);
    }
    KILN_CU(cuCtxSynchronize);
  }

  void launch_store(bool pdl) const { launch_store(pdl, q_.data(), q_stride()); }
  void launch_store(bool pdl, void* q, std::int64_t stride) const {
    launch("q_rope_store",
           {heads(q, stride), heads(out_.data(), out_stride()), freqs(), positions()}, pdl);
  }
  void launch_in_place(bool pdl) const {
    launch("rope_inplace", {heads(in_place_.data(), out_stride()), freqs(), positions()}, pdl);
  }

  std::string store_difference(const Values& values) const { return difference(out_, values); }
  std::string in_place_difference(const Values& values) const {
    return difference(in_place_, values);
  }
  bool q_is(const Values& values) const {
    std::vector<Bf16> got(size(shape_.rows * q_stride()));
    q_.download(got.data(), got.size() * 2);
    return got == spread(values.x, q_stride());
  }

  /// Both ops, eagerly, on these values.
  std::string run(const Values& values, bool pdl) const {
    set(values);
    launch_store(pdl);
    launch_in_place(pdl);
    Gpu::instance().stream.synchronize();
    return problems(values);
  }
  std::string problems(const Values& values) const {
    if (const std::string store = store_difference(values); !store.empty()) {
      return "q_rope_store: " + store;
    }
    if (const std::string in_place = in_place_difference(values); !in_place.empty()) {
      return "rope_inplace: " + in_place;
    }
    return q_is(values) ? "" : "q_rope_store changed q";
  }

  const Buffer& q() const { return q_; }
  const Buffer& freqs_buffer() const { return freqs_; }
  const GuardedBuffer& out() const { return out_; }
  const GuardedBuffer& in_place() const { return in_place_; }
  std::int64_t q_stride() const { return (shape_.heads + shape_.q_gap) * kHead; }
  std::int64_t out_stride() const { return (shape_.heads + shape_.out_gap) * kHead; }

 private:
  Tensor heads(void* data, std::int64_t stride) const {
    return {data, DType::kBF16, {shape_.rows, shape_.heads, kHead}, {stride, kHead, 1}};
  }
  Tensor freqs() const { return {freqs_.data(), DType::kComplex64, {kPositions, 32}}; }
  Tensor positions() const {
    return {static_cast<char*>(positions_.data()) + (wide_ ? 8 : 4),
            wide_ ? DType::kI64 : DType::kI32,
            {shape_.rows}};
  }

  static void launch(const char* op, const std::vector<Arg>& args, bool pdl) {
    Gpu& gpu = Gpu::instance();
    LaunchOptions options;
    options.pdl = pdl;
    gpu.engine.launch(gpu.engine.op(op), args, gpu.stream.get(), options);
  }

  template <class T>
  static void upload(const Buffer& buffer, const std::vector<T>& values) {
    if (!values.empty()) {
      buffer.upload(values.data(), values.size() * sizeof(T));
    }
  }

  std::vector<Bf16> spread(const std::vector<Bf16>& packed, std::int64_t stride) const {
    std::vector<Bf16> out(size(shape_.rows * stride), kPadding);
    const std::int64_t row_size = shape_.heads * kHead;
    for (std::int64_t row = 0; row < shape_.rows; ++row) {
      std::copy_n(packed.begin() + row * row_size, row_size, out.begin() + row * stride);
    }
    return out;
  }

  std::string difference(const GuardedBuffer& buffer, const Values& values) const {
    if (!buffer.canaries_intact()) {
      return "a canary beside the output was overwritten";
    }
    return first_difference(buffer.download_u16(), spread(values.y, out_stride()),
                            size(out_stride()));
  }

  Shape shape_;
  bool wide_;
  Buffer q_;
  Buffer freqs_;
  Buffer positions_;
  GuardedBuffer out_;
  GuardedBuffer in_place_;
};

TEST_CASE("Stored and in-place rotation agree with the reference bit for bit at every row count",
          "[attention]") {
  const float magnitude = GENERATE(1e-37F, 4e-36F, 1e-7F, 1e-3F, 1.0F, 448.0F, 1e3F, 1e10F);
  CAPTURE(magnitude);
  for (const std::int64_t rows :
       {1, 2, 3, 5, 6, 7, 8, 9, 31, 32, 33, 48, 64, 96, 97, 1000, 4095, 4096, 4097}) {
    if (rows > 97 && magnitude != 1.0F) {
      continue;
    }
    const Shape shape{rows, rows > 97 ? 3 : 16, rows % 2, 4};
    const Values values(shape, magnitude, static_cast<std::uint64_t>(rows));
    for (const bool wide : {true, false}) {
      const Call call(shape, wide);
      CAPTURE(rows, wide);
      REQUIRE(call.run(values, true) == "");
      REQUIRE(call.run(values, false) == "");
    }
  }
}

TEST_CASE("Rotation takes any number of heads, with few rows and with many",
          "[attention][sanitize]") {
  for (const std::int64_t heads : {1, 2, 3, 4, 5, 15, 16, 17, 64, 100}) {
    for (const std::int64_t rows : {1, 3, 33, 129}) {
      const Shape shape{rows, heads, 0, heads % 3};
      const Values values(shape, 1.0F, static_cast<std::uint64_t>(heads));
      CAPTURE(heads, rows);
      REQUIRE(Call(shape).run(values, true) == "");
    }
  }
}

TEST_CASE("The variants for few rows and for many give the same bits, whatever the batch",
          "[attention][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const OpHandle original = gpu.engine.op("q_rope_store");
  std::size_t count = 0;
  for (const Variant& variant : gpu.engine.variants(original, gpu.target())) {
    if (variant.traits[kPdlTrait] == 0 || variant.traits["POSITION"] != 0) {
      continue;  // The launches below ask for both; positions here are i64.
    }
    Op forced = original.op();
    forced.name += "_forced_" + std::to_string(count++);
    forced.choose = [chosen = variant.traits](const Problem&, Traits& traits) {
      for (const TraitSpec& spec : *chosen.specs()) {
        traits.set(spec.name, chosen[spec.name]);
      }
    };
    gpu.engine.register_op(forced);
    for (const std::int64_t rows : {1, 3, 33, 129}) {
      const Shape shape{rows, 17};
      const Values values(shape, 1.0F, 5);
      const Buffer q(values.x.size() * 2);
      const Buffer freqs(values.freqs.size() * 4);
      const Buffer positions(values.positions.size() * 8);
      const GuardedBuffer out(values.y.size() * 2);
      q.upload(values.x.data(), q.bytes());
      freqs.upload(values.freqs.data(), freqs.bytes());
      positions.upload(values.positions.data(), positions.bytes());
      for (const bool pdl : {true, false}) {
        LaunchOptions options;
        options.pdl = pdl;
        out.poison(0xA5);
        gpu.engine.launch(forced.name,
                          {Tensor(q.data(), DType::kBF16, {rows, 17, kHead}),
                           Tensor(out.data(), DType::kBF16, {rows, 17, kHead}),
                           Tensor(freqs.data(), DType::kComplex64, {kPositions, 32}),
                           Tensor(positions.data(), DType::kI64, {rows})},
                          gpu.stream.get(), options);
        gpu.stream.synchronize();
        CAPTURE(to_string(variant), rows, pdl);
        REQUIRE(out.canaries_intact());
        REQUIRE(first_difference(out.download_u16(), values.y, 17 * kHead) == "");
      }
    }
  }
  REQUIRE(count == 2);
}

TEST_CASE("Rotation keeps NaN, infinities, zeros and subnormals apart", "[attention]") {
  const Shape shape{40, 2};
  std::vector<Bf16> x = random_bf16(size(shape.rows * shape.heads * kHead), 1.0F, 3);
  const Bf16 specials[] = {0x7FC0, 0xFFC1, 0x7F80, 0xFF80, 0x0000, 0x8000, 0x0001, 0x7F7F};
  for (std::size_t i = 0; i < std::size(specials); ++i) {
    x[i * 1024 + 450 + i] = specials[i];  // Rotated.
    x[i * 1024 + 7 + i] = specials[i];    // Copied.
  }
  std::mt19937 generator(11);
  std::generate(x.begin() + 20 * 1024, x.end(),
                [&] { return static_cast<Bf16>(generator()); });  // Any bits at all.
  Values values(shape, x, 3);
  values.freqs[0] = std::numeric_limits<float>::infinity();
  values.freqs[3] = std::numeric_limits<float>::quiet_NaN();
  values.expect(shape.heads);
  const Call call(shape);
  REQUIRE(call.run(values, true) == "");
  REQUIRE(call.run(values, false) == "");
  // Copied elements keep their bits, also those of a NaN, which the comparison above lets pass.
  const std::vector<Bf16> got = call.out().download_u16();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % 512 < 448) {
      REQUIRE(got[i] == x[i]);
    }
  }
}

TEST_CASE("Rotation replays from a graph on inputs that change between replays", "[attention]") {
  Gpu& gpu = Gpu::instance();
  for (const std::int64_t rows : {1, 64, 700}) {
    for (const bool pdl : {true, false}) {
      const Shape shape{rows, 16, 1, 2};
      const Call call(shape);
      REQUIRE(call.run(Values(shape, 1.0F, 1), pdl) == "");
      const Graph graph(gpu.stream, [&] {
        call.launch_store(pdl);
        call.launch_in_place(pdl);
      });
      for (const std::uint64_t seed : {2U, 3U}) {
        const Values values(shape, 1.0F, seed);
        call.set(values);
        graph.launch(gpu.stream);
        gpu.stream.synchronize();
        CAPTURE(rows, pdl, seed);
        REQUIRE(call.problems(values) == "");
      }
    }
  }
}

TEST_CASE("Rotation of no rows launches nothing and touches nothing", "[attention][sanitize]") {
  const Shape shape{0, 16};
  REQUIRE(Call(shape).run(Values(shape, 1.0F, 1), true) == "");
}

TEST_CASE("Rows may lie more than 2^31 elements apart, in q and in out", "[attention]") {
  Gpu& gpu = Gpu::instance();
  const std::int64_t stride = (std::int64_t{1} << 30) + 8;
  const Shape shape{3, 16};
  const Values values(shape, 1.0F, 4);
  const Call inputs(shape);
  inputs.set(values);
  const std::size_t row_bytes = size(shape.heads * kHead) * 2;
  const Buffer far(size(2 * stride) * 2 + row_bytes);
  const Tensor wide(far.data(), DType::kBF16, {3, 16, kHead}, {stride, kHead, 1});
  const Tensor freqs(inputs.freqs_buffer().data(), DType::kComplex64, {kPositions, 32});
  const Buffer positions(24);
  positions.upload(values.positions.data(), 24);
  const Tensor position_tensor(positions.data(), DType::kI64, {3});
  const Tensor q(inputs.q().data(), DType::kBF16, {3, 16, kHead});
  gpu.engine.launch("q_rope_store", {q, wide, freqs, position_tensor}, gpu.stream.get());
  gpu.stream.synchronize();
  std::vector<Bf16> got(values.y.size());
  for (std::int64_t row = 0; row < 3; ++row) {
    far.download(got.data() + row * 16 * kHead, row_bytes, size(row * stride) * 2);
  }
  REQUIRE(first_difference(got, values.y, 16 * kHead) == "");
  for (std::int64_t row = 0; row < 3; ++row) {  // Now as the input of both.
    far.upload(values.x.data() + row * 16 * kHead, row_bytes, size(row * stride) * 2);
  }
  inputs.set(values);
  inputs.launch_store(true, far.data(), stride);
  gpu.engine.launch("rope_inplace", {wide, freqs, position_tensor}, gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(inputs.store_difference(values) == "");
  for (std::int64_t row = 0; row < 3; ++row) {
    far.download(got.data() + row * 16 * kHead, row_bytes, size(row * stride) * 2);
  }
  REQUIRE(first_difference(got, values.y, 16 * kHead) == "");
}

TEST_CASE("An output of more than 2 GiB is written to its end", "[attention]") {
  Gpu& gpu = Gpu::instance();
  constexpr std::int64_t kBlock = 1000;
  constexpr std::int64_t kRows = 140'000;  // 2.3e9 bytes of 16 heads.
  const Shape shape{kBlock, 16};
  const Values values(shape, 1.0F, 6);
  const std::size_t block_bytes = values.x.size() * 2;
  const Buffer q(block_bytes * (kRows / kBlock));
  const Buffer out(q.bytes());
  const Buffer freqs(values.freqs.size() * 4);
  const Buffer positions(kRows * 8);
  freqs.upload(values.freqs.data(), freqs.bytes());
  for (std::int64_t i = 0; i < kRows / kBlock; ++i) {
    q.upload(values.x.data(), block_bytes, size(i) * block_bytes);
    positions.upload(values.positions.data(), kBlock * 8, size(i) * kBlock * 8);
  }
  out.fill(0xA5);
  gpu.engine.launch("q_rope_store",
                    {Tensor(q.data(), DType::kBF16, {kRows, 16, kHead}),
                     Tensor(out.data(), DType::kBF16, {kRows, 16, kHead}),
                     Tensor(freqs.data(), DType::kComplex64, {kPositions, 32}),
                     Tensor(positions.data(), DType::kI64, {kRows})},
                    gpu.stream.get());
  gpu.stream.synchronize();
  std::vector<Bf16> got(values.y.size());
  for (std::int64_t i = 0; i < kRows / kBlock; ++i) {
    out.download(got.data(), block_bytes, size(i) * block_bytes);
    CAPTURE(i);
    REQUIRE(first_difference(got, values.y, 16 * kHead) == "");
  }
}

TEST_CASE("Rotations in a chain wait for each other, and inputs are not overwritten too early",
          "[pdl]") {
  Gpu& gpu = Gpu::instance();
  const std::int64_t rows = GENERATE(1, 8, 700);
  CAPTURE(rows);
  const Shape shape{rows, 16};
  const Values values(shape, 1.0F, 1);
  Values twice = values;  // The in-place op on what the stored one gave.
  twice.x = values.y;
  twice.expect(shape.heads);
  const Call call(shape);
  const Buffer source(values.x.size() * 2);
  const Buffer other(source.bytes());
  source.upload(values.x.data(), source.bytes());
  other.fill(0x3C);
  const auto record = [&] {
    late_copy(source.data(), call.q().data(), source.bytes(), kDelayNs);
    call.launch_store(true);
    late_copy(other.data(), call.q().data(), source.bytes(), 0);
    late_copy(call.out().data(), call.in_place().data(), source.bytes(), kDelayNs);
    call.launch_in_place(true);
  };
  const auto round = [&](const std::function<void()>& go) {
    call.set(values);
    call.q().fill(0xFF);
    go();
    gpu.stream.synchronize();
    REQUIRE(call.store_difference(values) == "");
    REQUIRE(call.in_place_difference(twice) == "");
  };
  for (int i = 0; i < 10; ++i) {
    round(record);
  }
  const Graph graph(gpu.stream, record);
  for (int i = 0; i < 10; ++i) {
    round([&] { graph.launch(gpu.stream); });
  }
}

}  // namespace
}  // namespace kiln::gpu
