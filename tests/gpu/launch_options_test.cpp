// What LaunchOptions and cooperative launches ask of the driver, seen in what a capture records,
// and that the kernels still give the right values.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/support/add_op.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/graph_parts.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr int kNumber = 301;

/// Two kernels that each add the number, the first into the workspace.
Op add_twice_op() {
  Op op = add_op(kNumber);
  op.name = "test_add_twice";
  KernelSpec first = op.kernels[0];
  first.name = "first";
  first.params = {Param::data("x"), Param::workspace(), Param::dim("count")};
  KernelSpec second = first;
  second.name = "second";
  second.params = {Param::workspace(), Param::data("out"), Param::dim("count")};
  op.kernels = {first, second};
  op.workspace = [](const Problem& problem, const Traits&) {
    return static_cast<std::size_t>(problem.dim("count")) * sizeof(float);
  };
  return op;
}

/// Launches of one op from a filled x to a poisoned out, on the tests' stream.
class Adding {
 public:
  explicit Adding(const Op& op = add_op(kNumber)) : op_(op.name) { register_once(op); }

  void launch(const LaunchOptions& options) const {
    Gpu& gpu = Gpu::instance();
    const Tensor from = x.tensor();
    const Tensor to = out.tensor();
    gpu.engine.launch(op_, {from, to}, gpu.stream.get(), options);
  }
  /// Runs `record` and says whether out is x + sum after it.
  template <class Record>
  bool gives(float sum, const Record& record) const {
    x.fill(5);
    out.fill(-1);
    record();
    Gpu::instance().stream.synchronize();
    return out.holds(5 + sum);
  }

 private:
  std::string op_;

 public:
  AddBuffer x;
  AddBuffer out;
};

TEST_CASE("A launch has the priority that its call asks for", "[options]") {
  Gpu& gpu = Gpu::instance();
  int least = 0;
  int greatest = 0;
  KILN_CU(cuCtxGetStreamPriorityRange, &least, &greatest);
  const int priority = GENERATE_COPY(least, greatest);
  CAPTURE(priority);
  const Adding adding;
  const auto launch = [&] { adding.launch({.priority = priority}); };
  CHECK(adding.gives(kNumber, launch));
  const Graph graph(gpu.stream, launch);
  CHECK(attribute_of_only_node(graph, CU_LAUNCH_ATTRIBUTE_PRIORITY).priority == priority);
  CHECK(adding.gives(kNumber, [&] { graph.launch(gpu.stream); }));
}

TEST_CASE("A launch is in the memory synchronization domain that its call asks for", "[options]") {
  Gpu& gpu = Gpu::instance();
  if (gpu.target().major < 9) {
    WARN("skipped: there are no such domains before compute capability 9.0");
    return;
  }
  const bool remote = GENERATE(false, true);
  CAPTURE(remote);
  const Adding adding;
  const auto launch = [&] {
    adding.launch(
        {.memory_sync_domain = remote ? MemorySyncDomain::kRemote : MemorySyncDomain::kDefault});
  };
  CHECK(adding.gives(kNumber, launch));
  const Graph graph(gpu.stream, launch);
  CHECK(attribute_of_only_node(graph, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN).memSyncDomain ==
        (remote ? CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE : CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT));
  CHECK(adding.gives(kNumber, [&] { graph.launch(gpu.stream); }));
}

TEST_CASE(
    "A serialized launch has a full edge to its predecessor and programmatic ones between its own "
    "kernels (field report 141)",
    "[options][pdl]") {
  if (!has_programmatic_edges()) {
    WARN("skipped: needs programmatic edges (compute capability 9.0, driver 12.3)");
    return;
  }
  Gpu& gpu = Gpu::instance();
  const bool serialize = GENERATE(false, true);
  CAPTURE(serialize);
  const Adding producer;
  const Adding adding(add_twice_op());
  const Buffer workspace(kAddCount * sizeof(float));
  const auto chain = [&] {
    late_copy(producer.x.tensor().dlpack().data, adding.x.tensor().dlpack().data,
              kAddCount * sizeof(float), kDelayNs);
    adding.launch({.serialize = serialize,
                   .workspace = workspace.data(),
                   .workspace_bytes = workspace.bytes()});
  };
  const auto follows_the_producer = [&](const auto& run) {
    producer.x.fill(70);
    adding.x.fill(5);
    run();
    gpu.stream.synchronize();
    return adding.out.holds(70.0F + 2 * kNumber);
  };
  CHECK(follows_the_producer(chain));
  const Graph graph(gpu.stream, chain);
  CHECK(programmatic_edges(graph) == std::vector{!serialize, true});
  CHECK(follows_the_producer([&] { graph.launch(gpu.stream); }));
}

/// Needs more than 48 KiB of shared memory, but not of either kind.
Op shared_op() {
  Op op = add_op(kNumber + 1);
  op.name = "test_shared";
  op.sources = {{"add.cu", R"cuda(
template <int N, bool PDL, bool WAITS>
__global__ void __launch_bounds__(256) add(const float* x, float* out, long long count) {
  __shared__ float kept[33 * 256];
  extern __shared__ float more[];
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  for (int j = threadIdx.x; j < 33 * 256; j += 256) kept[j] = i < count ? x[i] : 0;
  for (int j = threadIdx.x; j < 16 * 256; j += 256) more[j] = N;
  __syncthreads();
  if (i < count) out[i] = kept[32 * 256 + threadIdx.x] + more[15 * 256 + 255 - threadIdx.x];
}
)cuda"}};
  op.kernels[0].geometry = [inner = op.kernels[0].geometry](const Problem& problem,
                                                            const Traits& traits) {
    Geometry geometry = inner(problem, traits);
    geometry.dynamic_shared_bytes = 16 * 1024;
    return geometry;
  };
  return op;
}

TEST_CASE("Static and dynamic shared memory above 48 KiB together are there", "[options]") {
  const Adding adding(shared_op());
  CHECK(adding.gives(kNumber + 1, [&] { adding.launch({}); }));
}

constexpr std::uint32_t kMeetThreads = 1024;

/// Every block waits until all have come, which ends only where all are resident at once.
Op meet_op() {
  ArgSpec arrived;
  arrived.name = "arrived";
  arrived.dtypes = {DType::kI32};
  arrived.shape = {1};
  arrived.access = Access::kReadWrite;
  ArgSpec seen = arrived;
  seen.name = "seen";
  seen.shape = {"blocks"};
  seen.access = Access::kWrite;

  KernelSpec kernel;
  kernel.name = "meet";
  kernel.source = "meet.cu";
  kernel.instantiation = "meet<1024>";
  kernel.params = {Param::data("arrived"), Param::data("seen")};
  kernel.geometry = [](const Problem& problem, const Traits&) {
    return Geometry{.grid = {static_cast<std::uint32_t>(problem.dim("blocks")), 1, 1},
                    .block = {kMeetThreads, 1, 1},
                    .cooperative = true};
  };

  Op op;
  op.name = "test_meet";
  op.family = "test";
  op.summary = "Blocks wait for each other.";
  op.args = {arrived, seen};
  op.kernels = {kernel};
  op.sources = {{"meet.cu", R"cuda(
template <int THREADS>
__global__ void __launch_bounds__(THREADS) meet(int* arrived, int* seen) {
  if (threadIdx.x != 0) return;
  atomicAdd(arrived, 1);
  int now;
  do {
    now = *(volatile int*)arrived;
  } while (now < (int)gridDim.x);
  seen[blockIdx.x] = now;
}
)cuda"}};
  return op;
}

class Meeting {
 public:
  explicit Meeting(std::int64_t blocks)
      : blocks_(blocks), arrived_(4), seen_(static_cast<std::size_t>(blocks) * 4) {
    register_once(meet_op());
  }
  void launch() const {
    Gpu& gpu = Gpu::instance();
    const Tensor arrived(arrived_.data(), DType::kI32, {1});
    const Tensor seen(seen_.data(), DType::kI32, {blocks_});
    gpu.engine.launch("test_meet", {arrived, seen}, gpu.stream.get());
  }
  /// Whether, after `run`, every block has seen all blocks.
  template <class Run>
  bool meets(const Run& run) const {
    arrived_.fill(0);
    seen_.fill(0);
    run();
    Gpu::instance().stream.synchronize();
    std::vector<std::int32_t> seen(static_cast<std::size_t>(blocks_));
    seen_.download(seen.data(), seen_.bytes());
    return std::all_of(seen.begin(), seen.end(), [&](std::int32_t now) { return now == blocks_; });
  }

 private:
  std::int64_t blocks_;
  Buffer arrived_;
  Buffer seen_;
};

TEST_CASE(
    "The largest cooperative grid that is resident at once runs, and one block more is refused "
    "with both numbers (field report 142)",
    "[options]") {
  Gpu& gpu = Gpu::instance();
  const std::int64_t allowed =
      std::int64_t{gpu.context.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)} *
      (gpu.context.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) /
       std::int64_t{kMeetThreads});
  const Meeting meeting(allowed);
  CHECK(meeting.meets([&] { meeting.launch(); }));
  const Graph graph(gpu.stream, [&] { meeting.launch(); });
  CHECK(attribute_of_only_node(graph, CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative == 1);
  CHECK(meeting.meets([&] { graph.launch(gpu.stream); }));

  std::string message;
  try {
    Meeting(allowed + 1).launch();
  } catch (const Error& error) {
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.find(std::to_string(allowed + 1) + " blocks") != std::string::npos);
  CHECK(message.find("at most " + std::to_string(allowed)) != std::string::npos);
}

}  // namespace
}  // namespace kiln::gpu
