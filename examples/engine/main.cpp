// A small decode loop: makes plans, captures one step as a CUDA graph, and replays it.
//
//   engine [STEPS]
//
// A step runs, for each layer, rmsnorm and n32k5120_gemm_bf16 on a row of 5120, then rmsnorm and
// n128k512_gemm_bf16 on a row of 512.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <vector>

#include <kiln/kiln.hpp>

#include "examples/device.h"

namespace {

constexpr int kLayers = 8;
constexpr std::int64_t kRows = 4;

/// Zeroed bf16 tensors on device 0, freed with this.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    for (void* const block : blocks_) {
      device_free(block);
    }
  }
  void* bytes(std::int64_t elements) {
    const std::vector<std::uint16_t> zeros(static_cast<std::size_t>(elements));
    blocks_.push_back(device_alloc(zeros.size() * 2));
    device_upload(blocks_.back(), zeros.data(), zeros.size() * 2);
    return blocks_.back();
  }
  const kiln::Tensor& vector(std::int64_t n) {
    return tensors_.emplace_back(bytes(n), kiln::DType::kBF16,
                                 std::initializer_list<std::int64_t>{n});
  }
  const kiln::Tensor& matrix(std::int64_t m, std::int64_t n) {
    return tensors_.emplace_back(bytes(m * n), kiln::DType::kBF16,
                                 std::initializer_list<std::int64_t>{m, n});
  }

 private:
  std::vector<void*> blocks_;
  std::deque<kiln::Tensor> tensors_;  // Calls point into it.
};

/// One call of a step, with what it is launched with.
struct Call {
  const char* op;
  std::vector<kiln::Arg> args;
};

std::vector<Call> step_of(Memory& memory) {
  std::vector<Call> calls;
  const auto norm = [&](const kiln::Tensor& x, std::int64_t k) -> const kiln::Tensor& {
    const kiln::Tensor& y = memory.matrix(kRows, k);
    calls.push_back({"rmsnorm", {x, memory.vector(k), 1e-6, y}});
    return y;
  };
  const auto multiply = [&](const char* op, const kiln::Tensor& x, std::int64_t n, std::int64_t k) {
    calls.push_back({op, {x, memory.matrix(n, k), memory.matrix(kRows, n)}});
  };
  for (int layer = 0; layer < kLayers; ++layer) {
    multiply("n32k5120_gemm_bf16", norm(memory.matrix(kRows, 5120), 5120), 32, 5120);
    multiply("n128k512_gemm_bf16", norm(memory.matrix(kRows, 512), 512), 128, 512);
  }
  return calls;
}

/// Finds or compiles all kernels at once, and loads them, before anything is captured.
void warm_up(kiln::Engine& engine, const std::vector<Call>& calls) {
  kiln::WarmupRequest request;
  for (const Call& call : calls) {
    request.calls.push_back({call.op, call.args});
  }
  const kiln::WarmupReport report = engine.warmup(request);
  for (const kiln::WarmupReport::Failed& failed : report.failed) {
    throw kiln::Error(failed.code, failed.name + ": " + failed.message);
  }
  std::printf("warm-up: %d kernels compiled, %d libraries loaded, in %.2f s\n",
              static_cast<int>(report.compiled), static_cast<int>(report.loaded), report.seconds);
}

std::vector<kiln::Plan> plans_of(kiln::Engine& engine, const std::vector<Call>& calls) {
  std::vector<kiln::Plan> plans;
  for (const Call& call : calls) {
    plans.push_back(engine.plan(call.op, call.args));
  }
  return plans;
}

/// A stream, and a graph of what was launched on it.
class Graph {
 public:
  template <class Record>
  explicit Graph(Record&& record) {
    constexpr unsigned kNonBlocking = 1;
    constexpr int kGlobal = 0;
    void* graph = nullptr;
    DEVICE_CALL("cuStreamCreate", (void**, unsigned), &stream_, kNonBlocking);
    DEVICE_CALL("cuStreamBeginCapture_v2", (void*, int), stream_, kGlobal);
    record(stream_);
    DEVICE_CALL("cuStreamEndCapture", (void*, void**), stream_, &graph);
    DEVICE_CALL("cuGraphInstantiateWithFlags", (void**, void*, std::uint64_t), &executable_, graph,
                0);
    DEVICE_CALL("cuGraphDestroy", (void*), graph);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    DEVICE_CALL("cuGraphExecDestroy", (void*), executable_);
    DEVICE_CALL("cuStreamDestroy_v2", (void*), stream_);
  }
  void replay() const { DEVICE_CALL("cuGraphLaunch", (void*, void*), executable_, stream_); }
  void synchronize() const { DEVICE_CALL("cuStreamSynchronize", (void*), stream_); }

 private:
  void* stream_ = nullptr;
  void* executable_ = nullptr;
};

void decode(int steps) {
  Memory memory;
  kiln::EngineOptions options;
  options.log.callback = [](kiln::LogLevel, const char* line) {
    std::fprintf(stderr, "kiln: %s\n", line);
  };
  kiln::Engine engine(options);
  const std::vector<Call> calls = step_of(memory);
  warm_up(engine, calls);
  const std::vector<kiln::Plan> plans = plans_of(engine, calls);

  const Graph graph([&](void* stream) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      plans[i].launch(calls[i].args, stream);
    }
  });
  graph.replay();  // The first one uploads the graph.
  graph.synchronize();

  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    graph.replay();
  }
  graph.synchronize();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const double kernels = static_cast<double>(steps) * static_cast<double>(plans.size());
  std::printf("%d steps of %d kernels: %.0f kernels per second\n", steps,
              static_cast<int>(plans.size()), kernels / taken.count());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    device_open();
    decode(argc > 1 ? std::atoi(argv[1]) : 1000);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
