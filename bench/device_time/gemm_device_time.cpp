// Device time of the two small GEMMs against the peer mapping (bench/baselines/peer_gemm.cuh), PDL
// on and off, in one run. The baselines are ops of the same engine, so both are compiled, loaded
// and launched in the same way. Before anything is timed, both must give the same bits.

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <kiln/engine.hpp>

#include "bench/device_time/graph_timer.hpp"
#include "bench/device_time/nodes.hpp"
#include "tests/gpu/support/cuda.hpp"

namespace kiln::bench {
namespace {

struct Gemm {
  const char* op;
  const char* peer;
  std::int64_t n;
  std::int64_t k;
};

constexpr std::array<Gemm, 2> kGemms = {
    Gemm{"n128k512_gemm_bf16", "peer_n128k512", 128, 512},
    Gemm{"n32k5120_gemm_bf16", "peer_n32k5120", 32, 5120},
};
constexpr std::array<std::int64_t, 5> kRows = {1, 4, 8, 16, 32};
// The peer's rows per block: spread evenly over ceil(m / 8) blocks.
std::int64_t peer_blocks(const Problem& problem) {
  return (problem.dim("m") + 7) / 8;
}

Op peer_op(const Op& original, const Gemm& gemm) {
  Op op = original;
  op.name = gemm.peer;
  op.family = "baseline";
  op.traits = {TraitSpec::integers("ROWS", "rows of one block", 1, 8),
               TraitSpec::boolean(std::string(kPdlTrait), "programmatic dependent launch")};
  op.choose = [](const Problem& problem, Traits& traits) {
    const std::int64_t blocks = peer_blocks(problem);
    traits.set("ROWS", (problem.dim("m") + blocks - 1) / blocks);
  };
  op.exists = nullptr;
  KernelSpec kernel = baseline_kernel("kiln_bench::" + op.name + "<{ROWS}, {PDL}>");
  kernel.params = {Param::data("x"), Param::stride("x", 0), Param::data("w"), Param::data("out"),
                   Param::dim("m", ScalarType::kI32)};
  const std::uint32_t threads = gemm.n == 128 ? 128 : 320;
  kernel.geometry = [threads](const Problem& problem, const Traits&) {
    return Geometry{.grid = {32, static_cast<std::uint32_t>(peer_blocks(problem)), 1},
                    .block = {threads, 1, 1},
                    .cluster = {}};
  };
  op.kernels = {kernel};
  op.sources = {{"peer_gemm.cuh", kPeerGemmSource}};
  return op;
}

Engine make_engine(bool pdl) {
  EngineOptions options;
  options.pdl = pdl;
  Engine engine(options);
  for (const Gemm& gemm : kGemms) {
    engine.register_op(peer_op(engine.op(gemm.op).op(), gemm));
  }
  engine.register_op(empty_op());
  engine.register_op(delay_op());
  return engine;
}

// bf16 patterns of normal values; truncated, which is as random as rounded.
std::vector<std::uint16_t> random_bf16(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    const float sample = normal(generator);
    value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(sample) >> 16);
  }
  return values;
}

gpu::Buffer upload(const std::vector<std::uint16_t>& values) {
  gpu::Buffer buffer(values.size() * 2);
  buffer.upload(values.data(), values.size() * 2);
  return buffer;
}

// One GEMM's tensors on the device.
class Tensors {
 public:
  explicit Tensors(const Gemm& gemm)
      : gemm_(gemm),
        x_(upload(random_bf16(static_cast<std::size_t>(kRows.back() * gemm.k), 1))),
        w_(upload(random_bf16(static_cast<std::size_t>(gemm.n * gemm.k), 2))),
        out_(static_cast<std::size_t>(kRows.back() * gemm.n) * 2) {}

  const Gemm& gemm() const noexcept { return gemm_; }

  void launch(Engine& engine, const char* op, std::int64_t m, CUstream stream) const {
    const Tensor x(x_.data(), DType::kBF16, {m, gemm_.k});
    const Tensor w(w_.data(), DType::kBF16, {gemm_.n, gemm_.k});
    const Tensor out(out_.data(), DType::kBF16, {m, gemm_.n});
    engine.launch(op, {x, w, out}, stream);
  }

  // The output of one call on a poisoned buffer.
  std::vector<std::uint16_t> result(Engine& engine, const char* op, std::int64_t m,
                                    CUstream stream) const {
    out_.fill(0xA5);
    launch(engine, op, m, stream);
    KILN_CU(cuStreamSynchronize, stream);
    std::vector<std::uint16_t> values(static_cast<std::size_t>(m * gemm_.n));
    out_.download(values.data(), values.size() * 2);
    return values;
  }

 private:
  Gemm gemm_;
  gpu::Buffer x_;
  gpu::Buffer w_;
  gpu::Buffer out_;
};

constexpr std::array<const char * Gemm::*, 2> kContenders = {&Gemm::peer, &Gemm::op};

// Loads every kernel that is timed later and compares their outputs bit for bit.
void load_and_compare(std::array<Engine, 2>& engines, const Tensors& tensors, CUstream stream) {
  for (const std::int64_t m : kRows) {
    std::vector<std::uint16_t> expected;
    for (Engine& engine : engines) {
      for (const auto contender : kContenders) {
        const char* op = tensors.gemm().*contender;
        const auto got = tensors.result(engine, op, m, stream);
        if (!expected.empty() && got != expected) {
          throw std::runtime_error(std::string(op) + " differs at m = " + std::to_string(m));
        }
        expected = got;
      }
    }
  }
}

void time_gemm(const GraphTimer& timer, std::array<Engine, 2>& engines, const Tensors& tensors) {
  for (const std::int64_t m : kRows) {
    Calls calls;
    for (Engine& engine : engines) {
      for (const auto contender : kContenders) {
        calls.push_back([&, contender] {
          tensors.launch(engine, tensors.gemm().*contender, m, timer.stream());
        });
      }
    }
    const std::vector<double> t = times(timer, calls);
    std::printf("| %s | %lld | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f |\n", tensors.gemm().op,
                static_cast<long long>(m), t[0], t[1], t[1] / t[0], t[2], t[3], t[3] / t[2]);
  }
}

void run() {
  const gpu::Context context;
  std::array<Engine, 2> engines = {make_engine(true), make_engine(false)};
  const gpu::Buffer memory(256);
  const Tensor where(memory.data(), DType::kBF16, {128});
  const GraphTimer timer([&](std::int64_t nanoseconds, CUstream stream) {
    engines[0].launch("delay", {where, nanoseconds}, stream);
  });
  std::vector<std::unique_ptr<const Tensors>> gemms;
  for (const Gemm& gemm : kGemms) {
    gemms.push_back(std::make_unique<const Tensors>(gemm));
    load_and_compare(engines, *gemms.back(), timer.stream());
  }
  for (Engine& engine : engines) {
    engine.launch("delay", {where, 0}, timer.stream());
  }
  std::printf("%s\n\n", context.device_name().c_str());
  std::printf(
      "| op | m | peer, PDL on us | kiln, PDL on us | ratio | peer, PDL off us | "
      "kiln, PDL off us | ratio |\n|---|---|---|---|---|---|---|---|\n");
  for (const auto& tensors : gemms) {
    time_gemm(timer, engines, *tensors);
  }
  calibrate(timer, engines, where);
}

}  // namespace
}  // namespace kiln::bench

int main() {
  const std::string reason = kiln::gpu::why_no_device();
  if (!reason.empty()) {
    std::fprintf(stderr, "gemm_device_time needs a CUDA device and %s\n", reason.c_str());
    return 1;
  }
  try {
    kiln::bench::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gemm_device_time: %s\n", error.what());
    return 1;
  }
  return 0;
}
