// Device time of the two small GEMMs against the peer mapping (bench/baselines/peer_gemm.cuh), PDL
// on and off, in one run. Before anything is timed, both must give the same bits.
//
// Usage: gemm_device_time ROOT [TARGET] with ROOT the repository and TARGET by default sm_90a.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/device_time/graph_timer.hpp"
#include "bench/device_time/nvrtc_program.hpp"

namespace kiln::bench {
namespace {

struct Op {
  std::string name;
  int n;
  int k;
};

struct Launch {
  std::string kernel;
  std::array<unsigned, 2> grid;
  unsigned block;
  bool pdl;
};

constexpr std::array<int, 5> kRows = {1, 4, 8, 16, 32};
constexpr int kRounds = 5;

int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

std::string instantiation(const std::string& name, const std::string& traits, bool pdl) {
  return name + "<" + traits + ", " + (pdl ? "true" : "false") + ">";
}

Launch peer_launch(const Op& op, int m, bool pdl) {
  const int blocks = ceil_div(m, 8);
  return {instantiation("kiln_bench::peer_" + op.name, std::to_string(ceil_div(m, blocks)), pdl),
          {32, static_cast<unsigned>(blocks)},
          op.n == 128 ? 128U : 320U,
          pdl};
}

// Mirrors the op descriptions in trait_registry.
Launch kiln_launch(const Op& op, int m, bool pdl) {
  const std::string name = "kiln::" + op.name + "_gemm_bf16";
  if (op.n == 128) {
    const int row_warps = m <= 4 ? 1 : 2;
    const int m_split = m <= 16 ? 1 : m <= 128 ? 2 : m <= 512 ? 4 : 8;
    return {instantiation(name, std::to_string(m_split) + ", " + std::to_string(row_warps), pdl),
            {static_cast<unsigned>(ceil_div(m, row_warps * m_split)), row_warps == 1 ? 32U : 16U},
            128U,
            pdl};
  }
  const int groups = m <= 2 ? 1 : 2;
  const int m_split = m <= 16 ? 1 : m <= 32 ? 2 : m <= 64 ? 4 : 8;
  return {instantiation(name, std::to_string(m_split) + ", " + std::to_string(groups), pdl),
          {static_cast<unsigned>(ceil_div(m, m_split)), groups == 1 ? 32U : 8U},
          static_cast<unsigned>(320 * groups),
          pdl};
}

std::vector<std::uint16_t> random_bf16(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    const float sample = normal(generator);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &sample, sizeof(bits));
    value = static_cast<std::uint16_t>(bits >> 16);
  }
  return values;
}

DeviceMemory upload(const std::vector<std::uint16_t>& values) {
  DeviceMemory memory = allocate(values.size() * sizeof(std::uint16_t));
  check(cuMemcpyHtoD(memory.get(), values.data(), values.size() * sizeof(std::uint16_t)),
        "cuMemcpyHtoD");
  return memory;
}

// One op's tensors on the device.
class Problem {
 public:
  explicit Problem(Op op)
      : op_(std::move(op)),
        x_(upload(random_bf16(static_cast<std::size_t>(kRows.back()) * op_.k, 1))),
        w_(upload(random_bf16(static_cast<std::size_t>(op_.n) * op_.k, 2))),
        out_(allocate(static_cast<std::size_t>(kRows.back()) * op_.n * sizeof(std::uint16_t))) {}

  [[nodiscard]] const Op& op() const { return op_; }

  void launch(CUfunction function, const Launch& launch, int m, CUstream stream) const {
    CUdeviceptr x = x_.get();
    CUdeviceptr w = w_.get();
    CUdeviceptr out = out_.get();
    long long x_row_stride = op_.k;
    bool constants_early = true;  // read by our kernels only; the peer's take the first five
    void* arguments[] = {&x, &x_row_stride, &w, &out, &m, &constants_early};
    CUlaunchAttribute pdl{};
    pdl.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    pdl.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config{};
    config.gridDimX = launch.grid[0];
    config.gridDimY = launch.grid[1];
    config.gridDimZ = 1;
    config.blockDimX = launch.block;
    config.blockDimY = 1;
    config.blockDimZ = 1;
    config.hStream = stream;
    config.attrs = &pdl;
    config.numAttrs = launch.pdl ? 1 : 0;
    check(cuLaunchKernelEx(&config, function, arguments, nullptr), "cuLaunchKernelEx");
  }

  // The output of one call on a poisoned buffer.
  [[nodiscard]] std::vector<std::uint16_t> result(CUfunction function, const Launch& launch, int m,
                                                  CUstream stream) const {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(m) * op_.n);
    check(cuMemsetD16(out_.get(), 0xdead, values.size()), "cuMemsetD16");
    check(cuCtxSynchronize(), "cuCtxSynchronize");
    this->launch(function, launch, m, stream);
    check(cuStreamSynchronize(stream), "cuStreamSynchronize");
    check(cuMemcpyDtoH(values.data(), out_.get(), values.size() * sizeof(std::uint16_t)),
          "cuMemcpyDtoH");
    return values;
  }

 private:
  Op op_;
  DeviceMemory x_;
  DeviceMemory w_;
  DeviceMemory out_;
};

// Every kernel compiled and loaded by itself, as the library does it: how many kernels share a
// module changes a launch's time by up to 0.2 us.
class Kernels {
 public:
  Kernels(HeaderSet headers, std::string target)
      : headers_(std::move(headers)), target_(std::move(target)) {}

  CUfunction get(const std::string& name) {
    auto found = programs_.find(name);
    if (found == programs_.end()) {
      found = programs_.emplace(name, Program(source(name), {name}, headers_, target_)).first;
      found->second.load();
    }
    return found->second.kernel(name);
  }

 private:
  static std::string source(const std::string& name) {
    if (name.rfind("kiln_bench::", 0) == 0) {
      return "#include \"peer_gemm.cuh\"\n";
    }
    const std::string op = name.substr(name.find("::") + 2);
    return "#include \"gemm/" + op.substr(0, op.find('<')) + ".cuh\"\n";
  }

  HeaderSet headers_;
  std::string target_;
  std::map<std::string, Program> programs_;
};

std::vector<Launch> launches(const Op& op, int m) {
  return {peer_launch(op, m, true), kiln_launch(op, m, true), peer_launch(op, m, false),
          kiln_launch(op, m, false)};
}

void require_equal_bits(const Problem& problem, Kernels& kernels, CUstream stream) {
  for (const int m : kRows) {
    const std::vector<Launch> all = launches(problem.op(), m);
    const auto expected = problem.result(kernels.get(all[0].kernel), all[0], m, stream);
    for (const Launch& launch : all) {
      if (problem.result(kernels.get(launch.kernel), launch, m, stream) != expected) {
        throw std::runtime_error(launch.kernel + " differs from " + all[0].kernel +
                                 " at m = " + std::to_string(m));
      }
    }
  }
}

// The median over kRounds rounds of each launch's time; rounds take turns, so that a drift of the
// clocks meets all alike.
std::vector<double> times(const Problem& problem, Kernels& kernels, const GraphTimer& timer,
                          int m) {
  const std::vector<Launch> all = launches(problem.op(), m);
  std::vector<GraphExec> graphs;
  for (const Launch& launch : all) {
    const CUfunction function = kernels.get(launch.kernel);
    graphs.push_back(timer.capture([&] { problem.launch(function, launch, m, timer.stream()); }));
  }
  std::vector<std::vector<double>> samples(all.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      samples[i].push_back(timer.microseconds_per_call(graphs[i]));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& sample : samples) {
    std::sort(sample.begin(), sample.end());
    medians.push_back(sample[kRounds / 2]);
  }
  return medians;
}

void run(const std::string& root, const std::string& target) {
  check(cuInit(0), "cuInit");
  CUdevice device = 0;
  CUcontext context = nullptr;
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");

  const std::array<Op, 2> ops = {Op{"n128k512", 128, 512}, Op{"n32k5120", 32, 5120}};
  HeaderSet headers;
  add_headers(root + "/kernel_templates", headers);
  add_headers(root + "/bench/baselines", headers);
  Kernels kernels(std::move(headers), target);
  const GraphTimer timer(kernels.get("kiln_bench::delay"));

  std::printf(
      "| op | m | peer, PDL on us | kiln, PDL on us | ratio | peer, PDL off us | "
      "kiln, PDL off us | ratio |\n|---|---|---|---|---|---|---|---|\n");
  for (const Op& op : ops) {
    const Problem problem(op);
    require_equal_bits(problem, kernels, timer.stream());
    for (const int m : kRows) {
      const std::vector<double> t = times(problem, kernels, timer, m);
      std::printf("| %s_gemm_bf16 | %d | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f |\n",
                  op.name.c_str(), m, t[0], t[1], t[1] / t[0], t[2], t[3], t[3] / t[2]);
    }
  }
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: gemm_device_time ROOT [TARGET]\n");
    return 2;
  }
  try {
    kiln::bench::run(argv[1], argc > 2 ? argv[2] : "sm_90a");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gemm_device_time: %s\n", error.what());
    return 1;
  }
  return 0;
}
