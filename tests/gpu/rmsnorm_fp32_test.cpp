// docs/kernel_contracts.md, sections 2 and 6: rmsnorm_fp32, bit for bit against the CPU reference.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "reference/norm.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/gpu/support/random.hpp"
#include "tests/gpu/support/rsqrt.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr float kEps = 1e-5F;
constexpr std::int64_t kBlock = 251;

// Values on the host as fp32, and on the device as the dtype, in which they are exact.
struct Values {
  Values(std::vector<float> wanted, DType type) : dtype(type), floats(std::move(wanted)) {
    if (dtype == DType::kBF16) {
      bits = reference::to_bf16s(floats);
      floats = reference::to_floats(bits.data(), static_cast<std::int64_t>(bits.size()));
    }
  }
  std::size_t bytes() const { return floats.size() * element_bytes(); }
  std::size_t element_bytes() const { return dtype == DType::kBF16 ? 2 : 4; }
  const void* data() const {
    return dtype == DType::kBF16 ? static_cast<const void*>(bits.data()) : floats.data();
  }

  DType dtype;
  std::vector<float> floats;
  std::vector<std::uint16_t> bits;
};

// fp32 values that use all of their mantissa.
std::vector<float> random_floats(std::int64_t count, float magnitude, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = normal(generator) * magnitude;
  }
  return values;
}

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// kBlock rows of x, repeated to any batch, and their norms.
class Case {
 public:
  Case(Values x, Values w)
      : k_(static_cast<std::int64_t>(w.floats.size())),
        x_(std::move(x)),
        w_(std::move(w)),
        x_device_(x_.bytes()),
        w_device_(w_.bytes()),
        expected_(reference::rms_norm(x_.floats, w_.floats, kEps, device_rsqrt), x_.dtype) {
    x_device_.upload(x_.data(), x_.bytes());
    w_device_.upload(w_.data(), w_.bytes());
  }

  /// Empty when every bit is right, eagerly and from two starts with the rows changed between
  /// replays. `split` shapes x as [m / split, split, k].
  std::string run(std::int64_t m, bool pdl, std::int64_t split = 1,
                  const std::string& op = "rmsnorm_fp32") const {
    Gpu& gpu = Gpu::instance();
    const Buffer x(static_cast<std::size_t>(m) * row_bytes());
    const GuardedBuffer y(x.bytes());
    LaunchOptions options;
    options.pdl = pdl;
    set_rows(x, m, 0);
    y.poison(0xA5);
    launch(x, w_device_, y, {m / split, split}, options, op);
    gpu.stream.synchronize();
    std::string problem = difference(y, m, 0);
    if (!problem.empty()) {
      return problem;
    }
    const Graph graph(gpu.stream, [&] {
      launch(x, w_device_, y, {m / split, split}, options, op);
    });
    for (const std::int64_t first : {m * 7 % kBlock, std::int64_t{100}}) {
      set_rows(x, m, first);
      y.poison(0x5A);
      graph.launch(gpu.stream);
      gpu.stream.synchronize();
      problem = difference(y, m, first);
      if (!problem.empty()) {
        return "replay from row " + std::to_string(first) + ": " + problem;
      }
    }
    return "";
  }

  /// Row i becomes row (first + i) % kBlock of the case.
  void set_rows(const Buffer& x, std::int64_t m, std::int64_t first) const {
    for (std::int64_t row = 0; row < m;) {
      const std::int64_t from = (first + row) % kBlock;
      const std::int64_t rows = std::min(kBlock - from, m - row);
      KILN_CU(cuMemcpyDtoD, x.address() + static_cast<std::size_t>(row) * row_bytes(),
              x_device_.address() + static_cast<std::size_t>(from) * row_bytes(),
              static_cast<std::size_t>(rows) * row_bytes());
      row += rows;
    }
    KILN_CU(cuCtxSynchronize);
  }

  /// `leading` is the shape of x without k, of two axes.
  void launch(const Buffer& x, const Buffer& w, const GuardedBuffer& y,
              std::array<std::int64_t, 2> leading, const LaunchOptions& options,
              const std::string& op = "rmsnorm_fp32") const {
    Gpu& gpu = Gpu::instance();
    const Tensor x_tensor(x.data(), x_.dtype, {leading[0], leading[1], k_});
    const Tensor w_tensor(w.data(), w_.dtype, {k_});
    const Tensor y_tensor(y.data(), x_.dtype, {leading[0], leading[1], k_});
    gpu.engine.launch(op, {x_tensor, w_tensor, static_cast<double>(kEps), y_tensor},
                      gpu.stream.get(), options);
  }

  std::string difference(const GuardedBuffer& y, std::int64_t m, std::int64_t first) const {
    return y.canaries_intact() ? difference(y.download(), m, first)
                               : "a canary beside the output was overwritten";
  }

  std::string difference(const std::vector<std::uint8_t>& got, std::int64_t m,
                         std::int64_t first) const {
    for (std::int64_t row = 0; row < m; ++row) {
      const std::uint8_t* mine = got.data() + static_cast<std::size_t>(row) * row_bytes();
      const auto from = static_cast<std::size_t>((first + row) % kBlock);
      const auto* want = static_cast<const std::uint8_t*>(expected_.data()) + from * row_bytes();
      if (std::memcmp(mine, want, row_bytes()) != 0) {
        const std::string wrong = first_wrong(mine, from);
        if (!wrong.empty()) {
          return "row " + std::to_string(row) + ", " + wrong;
        }
      }
    }
    return "";
  }

  std::size_t row_bytes() const { return static_cast<std::size_t>(k_) * x_.element_bytes(); }
  const Buffer& w_device() const { return w_device_; }

 private:
  // The bytes of a row against row `row` of the case; two NaNs are equal.
  std::string first_wrong(const std::uint8_t* mine, std::size_t row) const {
    for (std::size_t i = 0; i < static_cast<std::size_t>(k_); ++i) {
      const float want = expected_.floats[row * static_cast<std::size_t>(k_) + i];
      float got = 0;
      if (x_.dtype == DType::kBF16) {
        got = reference::to_float(static_cast<std::uint16_t>(mine[2 * i] | mine[2 * i + 1] << 8));
      } else {
        std::memcpy(&got, mine + 4 * i, 4);
      }
      if (!same(got, want)) {
        return "element " + std::to_string(i) + ": got " + std::to_string(got) + ", want " +
               std::to_string(want);
      }
    }
    return "";
  }

  std::int64_t k_;
  Values x_;
  Values w_;
  Buffer x_device_;
  Buffer w_device_;
  Values expected_;
};

Case make_case(std::int64_t k, DType x, DType w, float magnitude = 1.0F) {
  return {Values(random_floats(kBlock * k, magnitude, 3), x), Values(random_floats(k, 1.0F, 4), w)};
}

TEST_CASE("rmsnorm_fp32 agrees with the reference bit for bit in every combination of types",
          "[norm]") {
  const DType x = GENERATE(DType::kBF16, DType::kF32);
  const DType w = GENERATE(DType::kBF16, DType::kF32);
  const float magnitude = GENERATE(1e-37F, 4e-36F, 1e-7F, 1e-3F, 1.0F, 448.0F, 1e3F, 1e10F);
  CAPTURE(dtype_name(x), dtype_name(w), magnitude);
  const Case norm = make_case(5120, x, w, magnitude);
  for (const std::int64_t m :
       {1, 2, 3, 5, 6, 7, 8, 9, 31, 32, 33, 48, 64, 96, 97, 1000, 4095, 4096, 4097}) {
    if (m > 1000 && magnitude != 1.0F) {
      continue;
    }
    CAPTURE(m);
    REQUIRE(norm.run(m, true) == "");
    REQUIRE(norm.run(m, false) == "");
  }
}

TEST_CASE("rmsnorm_fp32 takes every kind of width and any leading shape", "[norm][sanitize]") {
  const DType x = GENERATE(DType::kBF16, DType::kF32);
  for (const std::int64_t k : {8, 24, 128, 264, 1280, 8192, 8200, 16384}) {
    const Case norm = make_case(k, x, DType::kF32);
    for (const std::int64_t m : {1, 3, 33, 129}) {
      CAPTURE(dtype_name(x), k, m);
      REQUIRE(norm.run(m, true, m % 3 == 0 ? 3 : 1) == "");
    }
  }
  Gpu& gpu = Gpu::instance();
  const Buffer memory(3 * 256);
  memory.fill(0);
  const auto at = [&](int third) { return static_cast<char*>(memory.data()) + third * 256; };
  const Tensor row(at(0), x, {64});  // No leading axis: one row.
  gpu.engine.launch("rmsnorm_fp32",
                    {row, Tensor(at(1), DType::kF32, {64}), 1.0, Tensor(at(2), x, {64})},
                    gpu.stream.get());
  gpu.stream.synchronize();
}

TEST_CASE("rmsnorm_fp32 is right when CTAs take several rows, and for 65,536 rows", "[norm]") {
  const DType x = GENERATE(DType::kBF16, DType::kF32);
  const DType w = GENERATE(DType::kBF16, DType::kF32);
  for (const std::int64_t k : {8, 264, 512, 1280}) {
    const Case norm = make_case(k, x, w);
    for (const std::int64_t m : {1057, 2500, 4231, 65'536}) {
      if (m <= 4231 || k <= 512) {
        CAPTURE(dtype_name(x), dtype_name(w), k, m);
        REQUIRE(norm.run(m, m % 2 == 0) == "");
      }
    }
  }
}

TEST_CASE("rmsnorm_fp32 writes outputs of more than 2^31 elements", "[norm]") {
  const Case norm = make_case(8192, DType::kBF16, DType::kF32);
  const std::int64_t m = 262'145;  // 2^31 + 8192 elements.
  const Buffer x(static_cast<std::size_t>(m) * norm.row_bytes());
  const GuardedBuffer y(x.bytes());
  norm.set_rows(x, m, 0);
  y.poison(0xA5);
  norm.launch(x, norm.w_device(), y, {m, 1}, {});
  Gpu::instance().stream.synchronize();
  REQUIRE(norm.difference(y, m, 0) == "");
}

// Each kernel is released early by the one before: rows, or weights, that come late; the op; a late
// copy of its output; the op again, from other rows into the same output; and one that overwrites
// those rows.
TEST_CASE("rmsnorm_fp32 waits for its producer, and its successors for it", "[pdl]") {
  Gpu& gpu = Gpu::instance();
  const DType w_dtype = GENERATE(DType::kBF16, DType::kF32);
  const std::int64_t k = GENERATE(1280, 5120, 8200);
  const std::int64_t m = GENERATE(1, 130);
  const bool late_weights = GENERATE(false, true);
  CAPTURE(dtype_name(w_dtype), k, m, late_weights);
  const Case norm = make_case(k, DType::kF32, w_dtype);
  const std::size_t bytes = static_cast<std::size_t>(m) * norm.row_bytes();
  const Buffer rows(bytes), x(bytes), other(bytes), w(norm.w_device().bytes());
  const GuardedBuffer y(bytes), copied(bytes);
  norm.set_rows(rows, m, 3);
  LaunchOptions options;
  options.constants_ready = !late_weights;
  const auto copy_x = [&](std::int64_t delay) { late_copy(rows.data(), x.data(), bytes, delay); };
  const auto copy_w = [&](std::int64_t delay) {
    late_copy(norm.w_device().data(), w.data(), w.bytes(), delay);
  };
  const auto record = [&] {
    if (late_weights) {
      copy_x(0);
      copy_w(kDelayNs);
    } else {
      copy_x(kDelayNs);
    }
    norm.launch(x, late_weights ? w : norm.w_device(), y, {m, 1}, options);
    late_copy(y.data(), copied.data(), bytes, kDelayNs);
    norm.launch(other, norm.w_device(), y, {m, 1}, {});
    late_copy(rows.data(), other.data(), bytes, 0);
  };
  const auto run_and_check = [&](const auto& run) {
    x.fill(0xFF);
    w.fill(0xFF);
    norm.set_rows(other, m, 60);
    y.poison(0xA5);
    copied.poison(0x5A);
    run();
    gpu.stream.synchronize();
    REQUIRE(norm.difference(copied, m, 3) == "");
    REQUIRE(norm.difference(y, m, 60) == "");
  };
  for (int round = 0; round < 5; ++round) {
    run_and_check(record);
  }
  const Graph graph(gpu.stream, record);
  for (int round = 0; round < 5; ++round) {
    run_and_check([&] { graph.launch(gpu.stream); });
  }
}

TEST_CASE("Every variant of rmsnorm_fp32 gives the same bits", "[norm][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const OpHandle original = gpu.engine.op("rmsnorm_fp32");
  std::size_t count = 0;
  for (const Variant& variant : gpu.engine.variants(original, gpu.target())) {
    if (variant.traits[kPdlTrait] == 0) {
      continue;
    }
    Op forced = original.op();
    forced.name += "_forced_" + std::to_string(count++);
    forced.choose = [chosen = variant.traits](const Problem&, Traits& traits) {
      for (const TraitSpec& spec : *chosen.specs()) {
        traits.set(spec.name, chosen[spec.name]);
      }
    };
    gpu.engine.register_op(forced);
    const Case norm = make_case(1280, variant.traits["X"] != 0 ? DType::kF32 : DType::kBF16,
                                variant.traits["W"] != 0 ? DType::kF32 : DType::kBF16);
    for (const std::int64_t m : {1, 33, 129}) {
      CAPTURE(to_string(variant), m);
      REQUIRE(norm.run(m, true, 1, forced.name) == "");
    }
  }
  REQUIRE(count >= 8);
}

TEST_CASE("rmsnorm_fp32 keeps NaN, infinities, zeros and subnormals apart", "[norm]") {
  const DType x = GENERATE(DType::kBF16, DType::kF32);
  constexpr std::size_t kWidth = 1280;
  std::vector<float> values = random_floats(kBlock * kWidth, 1.0F, 9);
  const float infinity = std::numeric_limits<float>::infinity();
  std::fill_n(values.begin(), kWidth, 0.0F);
  values[1 * kWidth + 7] = std::numeric_limits<float>::quiet_NaN();
  values[2 * kWidth] = infinity;
  values[3 * kWidth + 9] = -infinity;
  std::fill_n(values.begin() + 4 * kWidth, kWidth, 1e-39F);
  std::fill_n(values.begin() + 5 * kWidth, kWidth, 3e38F);
  std::fill_n(values.begin() + 6 * kWidth, kWidth, -0.0F);
  const Case norm(Values(values, x), Values(random_floats(kWidth, 1.0F, 4), DType::kF32));
  REQUIRE(norm.run(9, true) == "");
  REQUIRE(norm.run(251, false) == "");
}

}  // namespace
}  // namespace kiln::gpu
