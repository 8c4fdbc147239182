// Device time of flashmla_sched_meta against the same walk on one thread
// (bench/baselines/sched_walk.cuh), PDL on and off, in one run. The baseline is an op of the same
// engine. Before anything is timed, both must give the same words.

#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/engine.hpp>

#include "bench/device_time/graph_timer.hpp"
#include "bench/device_time/nodes.hpp"
#include "bench/schedule_device_time/walk_source.hpp"
#include "tests/gpu/support/cuda.hpp"

namespace kiln::bench {
namespace {

constexpr const char* kOp = "flashmla_sched_meta";
constexpr const char* kWalk = "one_thread_walk";
constexpr std::array<std::int64_t, 7> kRequests = {1, 8, 32, 128, 512, 1024, 4096};
constexpr std::array<std::int64_t, 2> kPartitions = {132, 264};
constexpr std::array<std::int64_t, 2> kLongest = {2048, 131'072};

Op walk_op(const Op& original) {
  Op op = original;
  op.name = kWalk;
  op.family = "baseline";
  // It knows dense schedules alone.
  std::erase_if(op.args,
                [](const ArgSpec& arg) { return arg.name.find("topk") != std::string::npos; });
  op.scalar_contract = {};
  KernelSpec kernel;
  kernel.name = "walk";
  kernel.source = "sched_walk.cuh";
  kernel.instantiation = "kiln_bench::sched_walk<{PDL}>";
  const auto requests = [](const Problem& problem) { return problem.dim("n") - 1; };
  kernel.params = {Param::data("meta"),
                   Param::data("num_splits"),
                   Param::data("seqlens_k"),
                   Param::scalar("block_size_n"),
                   Param::scalar("fixed_overhead_num_blocks"),
                   Param::computed("requests", requests, ScalarType::kI32),
                   Param::dim("p", ScalarType::kI32)};
  kernel.geometry = [requests](const Problem& problem, const Traits&) {
    return Geometry{
        .grid = {1, 1, 1},
        .block = {32, 1, 1},
        .dynamic_shared_bytes = static_cast<std::uint32_t>(4 * (3 * requests(problem) + 1)),
        .cluster = {}};
  };
  op.kernels = {kernel};
  op.sources = {{"sched_walk.cuh", kSchedWalkSource}};
  return op;
}

Engine make_engine(bool pdl) {
  EngineOptions options;
  options.pdl = pdl;
  Engine engine(options);
  engine.register_op(walk_op(engine.op(kOp).op()));
  engine.register_op(empty_op());
  engine.register_op(delay_op());
  return engine;
}

/// One schedule's tensors on the device.
class Schedule {
 public:
  Schedule(std::int64_t requests, std::int64_t partitions, std::int64_t longest)
      : requests_(requests),
        partitions_(partitions),
        meta_(static_cast<std::size_t>(partitions) * 32),
        splits_(static_cast<std::size_t>(requests + 1) * 4),
        lengths_(static_cast<std::size_t>(requests) * 4) {
    std::vector<std::int32_t> lengths;
    for (std::int64_t i = 0; i < requests; ++i) {
      lengths.push_back(static_cast<std::int32_t>((i * 7919 + longest * 3 / 4) % longest + 1));
    }
    lengths_.upload(lengths.data(), lengths.size() * 4);
  }

  void launch(Engine& engine, const char* op, CUstream stream) const {
    const Tensor meta(meta_.data(), DType::kI32, {partitions_, 8});
    const Tensor splits(splits_.data(), DType::kI32, {requests_ + 1});
    const Tensor lengths(lengths_.data(), DType::kI32, {requests_});
    if (op == std::string_view(kWalk)) {
      engine.launch(op, {meta, splits, lengths, 64, 5}, stream);
    } else {
      engine.launch(op, {meta, splits, Arg(), Arg(), lengths, 64, 5, -1, Arg()}, stream);
    }
  }
  /// The words of one call on poisoned buffers.
  std::vector<std::int32_t> words(Engine& engine, const char* op, CUstream stream) const {
    meta_.fill(0xA5);
    splits_.fill(0xA5);
    launch(engine, op, stream);
    KILN_CU(cuStreamSynchronize, stream);
    std::vector<std::int32_t> words((meta_.bytes() + splits_.bytes()) / 4);
    meta_.download(words.data(), meta_.bytes());
    splits_.download(words.data() + meta_.bytes() / 4, splits_.bytes());
    return words;
  }

 private:
  std::int64_t requests_;
  std::int64_t partitions_;
  gpu::Buffer meta_, splits_, lengths_;
};

void time_schedule(const GraphTimer& timer, std::array<Engine, 2>& engines, std::int64_t requests,
                   std::int64_t partitions, std::int64_t longest) {
  const Schedule schedule(requests, partitions, longest);
  std::vector<std::int32_t> expected;
  Calls calls;
  for (Engine& engine : engines) {
    for (const char* const op : {kWalk, kOp}) {
      const auto got = schedule.words(engine, op, timer.stream());
      if (!expected.empty() && got != expected) {
        throw std::runtime_error(std::string(op) + " differs at " + std::to_string(requests) +
                                 " requests");
      }
      expected = got;
      calls.push_back(
          [&schedule, &engine, &timer, op] { schedule.launch(engine, op, timer.stream()); });
    }
  }
  const std::vector<double> t = times(timer, calls, 3);
  std::printf("| %lld | %lld | %lld | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f |\n",
              static_cast<long long>(requests), static_cast<long long>(partitions),
              static_cast<long long>(longest), t[0], t[1], t[1] / t[0], t[2], t[3], t[3] / t[2]);
}

void run() {
  const gpu::Context context;
  std::array<Engine, 2> engines = {make_engine(true), make_engine(false)};
  const gpu::Buffer memory(256);
  const Tensor where(memory.data(), DType::kBF16, {128});
  const GraphTimer timer([&](std::int64_t nanoseconds, CUstream stream) {
    engines[0].launch("delay", {where, nanoseconds}, stream);
  });
  for (Engine& engine : engines) {
    engine.launch("delay", {where, 0}, timer.stream());
  }
  std::printf("%s\n\n", context.device_name().c_str());
  std::printf(
      "| requests | partitions | longest | walk, PDL on us | kiln, PDL on us | ratio | walk, PDL "
      "off us | kiln, PDL off us | ratio |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const std::int64_t requests : kRequests) {
    for (const std::int64_t partitions : kPartitions) {
      for (const std::int64_t longest : kLongest) {
        time_schedule(timer, engines, requests, partitions, longest);
      }
    }
  }
  calibrate(timer, engines, where);
}

}  // namespace
}  // namespace kiln::bench

int main() {
  const std::string reason = kiln::gpu::why_no_device();
  if (!reason.empty()) {
    std::fprintf(stderr, "schedule_device_time needs a CUDA device and %s\n", reason.c_str());
    return 1;
  }
  try {
    kiln::bench::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "schedule_device_time: %s\n", error.what());
    return 1;
  }
  return 0;
}
