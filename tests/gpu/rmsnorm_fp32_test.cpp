// docs/kernel_contracts.md, sections 2 and 6: rmsnorm_fp32, bit for bit against the CPU reference.
#include <algorithm>
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

  /// Empty when every bit is right, eagerly and replayed. `split` shapes x as [m / split, split,
  /// k].
  std::string run(std::int64_t m, bool pdl, std::int64_t split = 1,
                  const std::string& op = "rmsnorm_fp32") const {
    Gpu& gpu = Gpu::instance();
    const std::size_t row_bytes = static_cast<std::size_t>(k_) * x_.element_bytes();
    const Buffer x(static_cast<std::size_t>(m) * row_bytes);
    for (std::int64_t row = 0; row < m; row += kBlock) {
      KILN_CU(cuMemcpyDtoD, x.address() + static_cast<std::size_t>(row) * row_bytes,
              x_device_.address(), static_cast<std::size_t>(std::min(kBlock, m - row)) * row_bytes);
    }
    KILN_CU(cuCtxSynchronize);
    const GuardedBuffer y(x.bytes());
    const Tensor x_tensor(x.data(), x_.dtype, {m / split, split, k_});
    const Tensor w_tensor(w_device_.data(), w_.dtype, {k_});
    const Tensor y_tensor(y.data(), x_.dtype, {m / split, split, k_});
    LaunchOptions options;
    options.pdl = pdl;
    const auto launch = [&] {
      gpu.engine.launch(op, {x_tensor, w_tensor, static_cast<double>(kEps), y_tensor},
                        gpu.stream.get(), options);
    };
    y.poison(0xA5);
    launch();
    gpu.stream.synchronize();
    std::string problem = difference(y, m);
    if (problem.empty()) {
      const Graph graph(gpu.stream, launch);
      y.poison(0x5A);
      graph.launch(gpu.stream);
      gpu.stream.synchronize();
      problem = difference(y, m);
    }
    return problem;
  }

 private:
  std::string difference(const GuardedBuffer& y, std::int64_t m) const {
    if (!y.canaries_intact()) {
      return "a canary beside the output was overwritten";
    }
    const std::vector<std::uint8_t> bytes = y.download();
    const auto count = static_cast<std::size_t>(m * k_);
    for (std::size_t i = 0; i < count; ++i) {
      const float want = expected_.floats[i % expected_.floats.size()];
      float got = 0;
      if (x_.dtype == DType::kBF16) {
        got = reference::to_float(static_cast<std::uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8));
      } else {
        std::memcpy(&got, bytes.data() + 4 * i, 4);
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
