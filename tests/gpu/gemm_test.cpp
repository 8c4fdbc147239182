// docs/kernel_contracts.md, sections 1 and 6, for both small GEMMs: bit for bit against the CPU
// reference that walks the contract's order of summation.
#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/support/gemm_case.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr std::int64_t kRowCounts[] = {1,  2,  3,  5,  6,  7,    8,    9,    31,  32,
                                       33, 48, 64, 96, 97, 1000, 4095, 4096, 4097};
constexpr std::int64_t kSanitizedRowCounts[] = {1, 3, 33, 129};
constexpr std::int64_t kMostRows = 4097;
constexpr std::int64_t kExtraRows = 64;  // So that batches can start at different rows.

enum class Mode { kEager, kReplay };

/// Runs one batch and says what is wrong with its output: empty when every bit is right.
std::string run(const GemmData& data, const std::string& op, std::int64_t m, std::int64_t stride,
                bool pdl, Mode mode) {
  Gpu& gpu = Gpu::instance();
  const DeviceRows x(m, data.shape.k, stride);
  const GuardedBuffer out(static_cast<std::size_t>(m * data.shape.n) * 2);
  const Tensor out_tensor(out.data(), DType::kBF16, {m, data.shape.n});
  LaunchOptions options;
  options.pdl = pdl;
  const auto launch = [&] {
    gpu.engine.launch(op, {x.tensor(), data.w_tensor(), out_tensor}, gpu.stream.get(), options);
  };
  const auto check = [&](std::int64_t first) -> std::string {
    gpu.stream.synchronize();
    if (!out.canaries_intact()) {
      return "a canary beside the output was overwritten";
    }
    return first_difference(out.download_u16(), data.expected_rows(first, m),
                            static_cast<std::size_t>(data.shape.n));
  };
  const std::int64_t starts[] = {0, (m * 7) % kExtraRows};

  if (mode == Mode::kEager) {
    out.poison(0xA5);
    x.copy_from(data.x_device, starts[1], gpu.stream);
    launch();
    return check(starts[1]);
  }
  x.copy_from(data.x_device, starts[0], gpu.stream);
  launch();  // Loads the kernel, so that the capture only launches.
  gpu.stream.synchronize();
  const Graph graph(gpu.stream, launch);
  for (const std::int64_t first : starts) {  // Inputs change between replays.
    out.poison(0x5A);
    x.copy_from(data.x_device, first, gpu.stream);
    graph.launch(gpu.stream);
    const std::string problem = check(first);
    if (!problem.empty()) {
      return "replay from row " + std::to_string(first) + ": " + problem;
    }
  }
  return "";
}

GemmData make_data(const GemmShape& shape, std::int64_t rows, float magnitude) {
  return GemmData::random(shape, rows + kExtraRows, magnitude, 20260,
                          Gpu::instance().vector_elements());
}

TEST_CASE("A small GEMM agrees with the reference bit for bit at every row count and magnitude",
          "[gemm]") {
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  const float magnitude = GENERATE(1e-37F, 4e-36F, 1e-7F, 1e-3F, 1.0F, 448.0F, 1e3F, 1e10F);
  CAPTURE(shape.op, magnitude);
  const GemmData data = make_data(shape, kMostRows, magnitude);
  for (const std::int64_t m : kRowCounts) {
    for (const std::int64_t stride : {shape.k, shape.k + 48}) {
      for (const bool pdl : {true, false}) {
        for (const Mode mode : {Mode::kEager, Mode::kReplay}) {
          CAPTURE(m, stride, pdl, mode == Mode::kReplay);
          REQUIRE(run(data, shape.op, m, stride, pdl, mode) == "");
        }
      }
    }
  }
}

TEST_CASE("A small GEMM is right on the row counts that the memory checkers run",
          "[gemm][sanitize]") {
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  CAPTURE(shape.op);
  const GemmData data = make_data(shape, 129, 1.0F);
  for (const std::int64_t m : kSanitizedRowCounts) {
    CAPTURE(m);
    REQUIRE(run(data, shape.op, m, shape.k, true, Mode::kEager) == "");
    REQUIRE(run(data, shape.op, m, shape.k + 48, true, Mode::kReplay) == "");
  }
}

TEST_CASE("Every variant of a small GEMM gives the same bits", "[gemm][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  const GemmData data = make_data(shape, 129, 1.0F);
  const OpHandle original = gpu.engine.op(shape.op);
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
    for (const std::int64_t m : kSanitizedRowCounts) {
      for (const bool pdl : {true, false}) {
        CAPTURE(to_string(variant), m, pdl);
        REQUIRE(run(data, forced.name, m, shape.k, pdl, Mode::kEager) == "");
      }
    }
  }
  REQUIRE(count >= 8);  // M_SPLIT alone has eight values.
}

TEST_CASE("A small GEMM keeps zero rows, NaN, infinities and subnormals apart", "[gemm]") {
  Gpu& gpu = Gpu::instance();
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  CAPTURE(shape.op);
  const auto k = static_cast<std::size_t>(shape.k);
  std::vector<std::uint16_t> x = random_bf16(64 * k, 1.0F, 7);
  const auto fill_row = [&](std::size_t row, std::uint16_t bits) {
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(row * k), k, bits);
  };
  fill_row(1, 0x0000);
  fill_row(2, 0x8000);
  fill_row(4, 0x0001);        // The smallest subnormal.
  x[5 * k + 17] = 0x7FC0;     // One NaN.
  x[6 * k + 3] = 0x7F80;      // +inf
  x[7 * k + k - 1] = 0xFF80;  // -inf
  x[8 * k] = 0x7F80;          // inf and -inf in one row.
  x[8 * k + 1] = 0xFF80;
  fill_row(9, 0x7F7F);  // The largest finite value: overflows.
  std::mt19937 generator(11);
  for (std::size_t i = 10 * k; i < 12 * k; ++i) {
    x[i] = static_cast<std::uint16_t>(generator());  // Any bits at all.
  }
  std::vector<std::uint16_t> w = random_bf16(static_cast<std::size_t>(shape.n) * k, 1.0F, 8);
  std::fill_n(w.begin(), k, std::uint16_t{0});  // A zero column: inf * 0 is NaN.
  w[k + 5] = 0x7F80;
  const GemmData data(shape, x, w, gpu.vector_elements());
  for (const bool pdl : {true, false}) {
    REQUIRE(run(data, shape.op, 15, shape.k, pdl, Mode::kEager) == "");
    REQUIRE(run(data, shape.op, 15, shape.k, pdl, Mode::kReplay) == "");
  }
}

TEST_CASE("A small GEMM takes more rows than its policy advises and more than one grid axis holds",
          "[gemm]") {
  Gpu& gpu = Gpu::instance();
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  const std::int64_t m = 600'001;
  CAPTURE(shape.op, m);
  // All rows repeat a block of 251, so that the reference need not compute 600,001 of them.
  const std::int64_t block = 251;
  const GemmData data = GemmData::random(shape, block, 1.0F, 99, gpu.vector_elements());
  const Buffer x(static_cast<std::size_t>(m * shape.k) * 2);
  for (std::int64_t row = 0; row < m; row += block) {
    const auto bytes = static_cast<std::size_t>(std::min(block, m - row) * shape.k) * 2;
    KILN_CU(cuMemcpyDtoD, x.address() + static_cast<std::size_t>(row * shape.k) * 2,
            data.x_device.address(), bytes);
  }
  const GuardedBuffer out(static_cast<std::size_t>(m * shape.n) * 2);
  out.poison(0xA5);
  const Tensor x_tensor(x.data(), DType::kBF16, {m, shape.k});
  const Tensor out_tensor(out.data(), DType::kBF16, {m, shape.n});
  REQUIRE_FALSE(gpu.engine.can_use(shape.op, {x_tensor, data.w_tensor(), out_tensor}));
  gpu.engine.launch(shape.op, {x_tensor, data.w_tensor(), out_tensor}, gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(out.canaries_intact());
  const std::vector<std::uint16_t> got = out.download_u16();
  for (std::int64_t row = 0; row < m; row += block) {
    const std::int64_t rows = std::min(block, m - row);
    CAPTURE(row);
    REQUIRE(first_difference(std::span(got).subspan(static_cast<std::size_t>(row * shape.n),
                                                    static_cast<std::size_t>(rows * shape.n)),
                             data.expected_rows(0, rows), static_cast<std::size_t>(shape.n)) == "");
  }
}

TEST_CASE("A small GEMM reads rows that lie more than 2^31 elements apart", "[gemm]") {
  Gpu& gpu = Gpu::instance();
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  CAPTURE(shape.op);
  const GemmData data = GemmData::random(shape, 3, 1.0F, 5, gpu.vector_elements());
  const std::int64_t stride = (std::int64_t{1} << 30) + 16;
  const Buffer x(static_cast<std::size_t>(2 * stride + shape.k) * 2);
  for (std::int64_t row = 0; row < 3; ++row) {
    KILN_CU(cuMemcpyDtoD, x.address() + static_cast<std::size_t>(row * stride) * 2,
            data.x_device.address() + static_cast<std::size_t>(row * shape.k) * 2,
            static_cast<std::size_t>(shape.k) * 2);
  }
  const GuardedBuffer out(static_cast<std::size_t>(3 * shape.n) * 2);
  out.poison(0xA5);
  const Tensor x_tensor(x.data(), DType::kBF16, {3, shape.k}, {stride, 1});
  const Tensor out_tensor(out.data(), DType::kBF16, {3, shape.n});
  gpu.engine.launch(shape.op, {x_tensor, data.w_tensor(), out_tensor}, gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(out.canaries_intact());
  REQUIRE(first_difference(out.download_u16(), data.expected_rows(0, 3),
                           static_cast<std::size_t>(shape.n)) == "");
}

TEST_CASE("An empty batch launches nothing and touches nothing", "[gemm][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  const GemmData data = GemmData::random(shape, 1, 1.0F, 5, gpu.vector_elements());
  const GuardedBuffer out(64);
  out.poison(0xA5);
  const Tensor x(data.x_device.data(), DType::kBF16, {0, shape.k});
  const Tensor out_tensor(out.data(), DType::kBF16, {0, shape.n});
  gpu.engine.launch(shape.op, {x, data.w_tensor(), out_tensor}, gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(out.canaries_intact());
  REQUIRE(out.download_u16() == std::vector<std::uint16_t>(32, 0xA5A5));
}

TEST_CASE("Threads on streams of their own get the bits that one stream gets", "[gemm]") {
  Gpu& gpu = Gpu::instance();
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  CAPTURE(shape.op);
  const GemmData data = GemmData::random(shape, 64, 1.0F, 13, gpu.vector_elements());
  std::vector<std::string> problems(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < problems.size(); ++t) {
    threads.emplace_back([&, t] {
      gpu.context.make_current();
      const Stream stream;
      const auto m = static_cast<std::int64_t>(t % 4 + 1) * 8;
      const GuardedBuffer out(static_cast<std::size_t>(m * shape.n) * 2);
      const Tensor x(data.x_device.data(), DType::kBF16, {m, shape.k});
      const Tensor out_tensor(out.data(), DType::kBF16, {m, shape.n});
      for (int round = 0; round < 50 && problems[t].empty(); ++round) {
        out.poison(0xA5);
        gpu.engine.launch(shape.op, {x, data.w_tensor(), out_tensor}, stream.get());
        stream.synchronize();
        problems[t] = first_difference(out.download_u16(), data.expected_rows(0, m),
                                       static_cast<std::size_t>(shape.n));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& problem : problems) {
    CHECK(problem == "");
  }
}

}  // namespace
}  // namespace kiln::gpu
