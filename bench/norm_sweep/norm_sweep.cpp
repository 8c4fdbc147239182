// Every variant of the norm and MXFP8 ops at every shape, with several grids, best first: what the
// registry's choices are tuned from. `kiln bench` times the choices themselves.
//
//   kiln_bench_norm_sweep [OP]

#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <kiln/engine.hpp>

#include "bench/device_time/graph_timer.hpp"
#include "bench/device_time/nodes.hpp"
#include "bench/norm_sweep/sweep.hpp"
#include "tests/gpu/support/cuda.hpp"

namespace kiln::bench {
namespace {

Engine make_engine(bool pdl) {
  EngineOptions options;
  options.pdl = pdl;
  Engine engine(options);
  engine.register_op(empty_op());
  engine.register_op(delay_op());
  return engine;
}

void run(const std::string& only) {
  const gpu::Context context;
  std::array<Engine, 2> engines = {make_engine(true), make_engine(false)};
  const gpu::Buffer memory(256);
  const Tensor where(memory.data(), DType::kBF16, {128});
  const GraphTimer timer([&](std::int64_t nanoseconds, CUstream stream) {
    engines[0].launch("delay", {where, nanoseconds}, stream);
  });
  engines[0].launch("delay", {where, 0}, timer.stream());
  std::printf("%s\n\n", context.device_name().c_str());
  sweep(engines[0], timer, only);
  calibrate(timer, engines, where);
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  const std::string reason = kiln::gpu::why_no_device();
  if (!reason.empty()) {
    std::fprintf(stderr, "norm_sweep needs a CUDA device and %s\n", reason.c_str());
    return 1;
  }
  try {
    kiln::bench::run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "norm_sweep: %s\n", error.what());
    return 1;
  }
  return 0;
}
