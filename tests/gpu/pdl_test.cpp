// Programmatic dependent launch, docs/kernel_contracts.md section 0: a kernel behind a producer
// that releases its dependents at once and stores late must still see what the producer stored, and
// a kernel behind it may not overwrite what it still reads.
#include <functional>
#include <string>
#include <vector>

#include "tests/gpu/support/gemm_case.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

/// One GEMM's buffers and the launches that the tests chain.
class Chain {
 public:
  Chain(const GemmShape& shape, std::int64_t m)
      : shape_(shape),
        m_(m),
        first(GemmData::random(shape, m, 1.0F, 31, Gpu::instance().vector_elements())),
        second(GemmData::random(shape, m, 1.0F, 47, Gpu::instance().vector_elements())),
        x(first.x.size() * 2),
        w(first.w.size() * 2),
        out(static_cast<std::size_t>(m * shape.n) * 2),
        out2(static_cast<std::size_t>(m * shape.n) * 2) {}

  void copy(const Buffer& from, const Buffer& to, std::int64_t delay_ns) const {
    late_copy(from.data(), to.data(), from.bytes(), delay_ns);
  }
  void gemm(const Buffer& weights, const GuardedBuffer& to, bool constants_ready = true) const {
    Gpu& gpu = Gpu::instance();
    LaunchOptions options;
    options.constants_ready = constants_ready;
    const Tensor x_tensor(x.data(), DType::kBF16, {m_, shape_.k});
    const Tensor w_tensor(weights.data(), DType::kBF16, {shape_.n, shape_.k});
    const Tensor out_tensor(to.data(), DType::kBF16, {m_, shape_.n});
    gpu.engine.launch(shape_.op, {x_tensor, w_tensor, out_tensor}, gpu.stream.get(), options);
  }

  /// What differs between `to` and the reference for these inputs.
  std::string difference(const GuardedBuffer& to, const std::vector<std::uint16_t>& xs,
                         const std::vector<std::uint16_t>& ws) const {
    if (!to.canaries_intact()) {
      return "a canary beside the output was overwritten";
    }
    return first_difference(to.download_u16(),
                            reference_gemm(shape_, xs, ws, Gpu::instance().vector_elements()),
                            static_cast<std::size_t>(shape_.n));
  }

 private:
  GemmShape shape_;
  std::int64_t m_;

 public:
  GemmData first;
  GemmData second;
  Buffer x;
  Buffer w;
  GuardedBuffer out;
  GuardedBuffer out2;
};

/// Runs `record` eagerly and as a replayed graph, from a poisoned state each time, then `check`.
void eagerly_and_replayed(const Chain& chain, const std::function<void()>& record,
                          const std::function<void()>& check) {
  Gpu& gpu = Gpu::instance();
  const auto reset = [&] {
    chain.x.fill(0xFF);
    chain.out.poison(0xA5);
    chain.out2.poison(0xA5);
  };
  for (int round = 0; round < 20; ++round) {
    reset();
    record();
    gpu.stream.synchronize();
    check();
  }
  const Graph graph(gpu.stream, record);
  for (int round = 0; round < 20; ++round) {
    reset();
    graph.launch(gpu.stream);
    gpu.stream.synchronize();
    check();
  }
}

constexpr std::int64_t kRows[] = {1, 8, 33};

TEST_CASE("A kernel sees what a producer that released it early stores late (field report 131)",
          "[pdl]") {
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  const std::int64_t m = GENERATE(from_range(std::begin(kRows), std::end(kRows)));
  CAPTURE(shape.op, m);
  const Chain chain(shape, m);
  eagerly_and_replayed(
      chain,
      [&] {
        chain.copy(chain.first.x_device, chain.x, kDelayNs);
        chain.gemm(chain.first.w_device, chain.out);
      },
      [&] { REQUIRE(chain.difference(chain.out, chain.first.x, chain.first.w) == ""); });
}

TEST_CASE("The third kernel of a chain sees what the first one stored", "[pdl]") {
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  const std::int64_t m = GENERATE(from_range(std::begin(kRows), std::end(kRows)));
  CAPTURE(shape.op, m);
  const Chain chain(shape, m);
  eagerly_and_replayed(
      chain,
      [&] {
        chain.copy(chain.first.x_device, chain.x, kDelayNs);
        chain.gemm(chain.first.w_device, chain.out);
        chain.gemm(chain.second.w_device, chain.out2);
      },
      [&] {
        REQUIRE(chain.difference(chain.out, chain.first.x, chain.first.w) == "");
        REQUIRE(chain.difference(chain.out2, chain.first.x, chain.second.w) == "");
      });
}

TEST_CASE("A kernel's inputs are not overwritten by the next one before it has read them",
          "[pdl]") {
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  const std::int64_t m = GENERATE(from_range(std::begin(kRows), std::end(kRows)));
  CAPTURE(shape.op, m);
  const Chain chain(shape, m);
  eagerly_and_replayed(
      chain,
      [&] {
        chain.copy(chain.first.x_device, chain.x, kDelayNs);
        chain.gemm(chain.first.w_device, chain.out);
        chain.copy(chain.second.x_device, chain.x, 0);
        chain.gemm(chain.first.w_device, chain.out2);
      },
      [&] {
        REQUIRE(chain.difference(chain.out, chain.first.x, chain.first.w) == "");
        REQUIRE(chain.difference(chain.out2, chain.second.x, chain.first.w) == "");
      });
}

TEST_CASE("An output is not overwritten by the next kernel before a late reader has copied it",
          "[pdl]") {
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  const std::int64_t m = GENERATE(from_range(std::begin(kRows), std::end(kRows)));
  CAPTURE(shape.op, m);
  const Chain chain(shape, m);
  const Buffer copied(chain.out.bytes());
  eagerly_and_replayed(
      chain,
      [&] {
        chain.copy(chain.first.x_device, chain.x, 0);
        chain.gemm(chain.first.w_device, chain.out);
        late_copy(chain.out.data(), copied.data(), chain.out.bytes(), kDelayNs);
        chain.gemm(chain.second.w_device, chain.out);
      },
      [&] {
        std::vector<std::uint16_t> got(chain.out.bytes() / 2);
        copied.download(got.data(), chain.out.bytes());
        REQUIRE(first_difference(got, chain.first.expected, static_cast<std::size_t>(shape.n)) ==
                "");
        REQUIRE(chain.difference(chain.out, chain.first.x, chain.second.w) == "");
      });
}

TEST_CASE("Weights that the previous kernel writes are read after the wait when the call says so",
          "[pdl]") {
  const GemmShape shape = GENERATE(from_range(std::begin(kGemmShapes), std::end(kGemmShapes)));
  const std::int64_t m = GENERATE(from_range(std::begin(kRows), std::end(kRows)));
  CAPTURE(shape.op, m);
  const Chain chain(shape, m);
  eagerly_and_replayed(
      chain,
      [&] {
        chain.copy(chain.first.x_device, chain.x, 0);
        chain.copy(chain.first.w_device, chain.w, 0);
        chain.gemm(chain.w, chain.out, false);
        chain.copy(chain.second.w_device, chain.w, kDelayNs);
        chain.gemm(chain.w, chain.out2, false);
      },
      [&] {
        REQUIRE(chain.difference(chain.out, chain.first.x, chain.first.w) == "");
        REQUIRE(chain.difference(chain.out2, chain.first.x, chain.second.w) == "");
      });
}

}  // namespace
}  // namespace kiln::gpu
