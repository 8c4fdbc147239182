// Device time of the norm and MXFP8 ops, PDL on and off, beside the floor and the peer's time of
// docs/peer_h200.md, which was measured in the same way.
//
//   kiln_bench_norms_device_time               the table
//   kiln_bench_norms_device_time --sweep [OP]  every variant with several grids, best first

#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <kiln/kiln.hpp>

#include "bench/device_norms/cases.hpp"
#include "bench/device_norms/sweep.hpp"
#include "bench/device_time/graph_timer.hpp"
#include "bench/device_time/nodes.hpp"
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

void print_row(const Case& which, const std::vector<double>& t) {
  std::printf("| %s | %lld | %lld | %.3f | %.3f | %.2f | %.2f |", which.op,
              static_cast<long long>(which.m), static_cast<long long>(which.k), t[0], t[1],
              floor_us(which), t[0] / floor_us(which));
  if (which.peer_us > 0) {
    std::printf(" %.2f | %.3f |\n", which.peer_us, t[0] / which.peer_us);
  } else {
    std::printf(" - | - |\n");
  }
}

void time_case(const GraphTimer& timer, std::array<Engine, 2>& engines, const Case& which) {
  CaseTensors tensors(which);
  Calls calls;
  for (Engine& engine : engines) {
    const OpHandle op = engine.op(which.op);
    tensors.launch(engine, op, timer.stream());  // Loads the kernel.
    calls.push_back(
        [&tensors, &engine, op, &timer] { tensors.launch(engine, op, timer.stream()); });
  }
  const std::size_t rounds = floor_us(which) < 20 ? 5 : 3;
  print_row(which, times(timer, calls, rounds));
}

void run(const std::vector<std::string>& args) {
  const gpu::Context context;
  std::array<Engine, 2> engines = {make_engine(true), make_engine(false)};
  const gpu::Buffer memory(256);
  const Tensor where(memory.data(), DType::kBF16, {128});
  const GraphTimer timer([&](std::int64_t nanoseconds, CUstream stream) {
    engines[0].launch("delay", {where, nanoseconds}, stream);
  });
  engines[0].launch("delay", {where, 0}, timer.stream());
  std::printf("%s\n\n", context.device_name().c_str());
  if (!args.empty() && args[0] == "--sweep") {
    sweep(engines[0], timer, args.size() > 1 ? args[1] : "");
  } else {
    std::printf(
        "| op | m | k | PDL on us | PDL off us | floor us | to floor | peer us | to peer |\n"
        "|---|---|---|---|---|---|---|---|---|\n");
    for (const Case& which : cases()) {
      time_case(timer, engines, which);
    }
  }
  calibrate(timer, engines, where);
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  const std::string reason = kiln::gpu::why_no_device();
  if (!reason.empty()) {
    std::fprintf(stderr, "norms_device_time needs a CUDA device and %s\n", reason.c_str());
    return 1;
  }
  try {
    kiln::bench::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "norms_device_time: %s\n", error.what());
    return 1;
  }
  return 0;
}
