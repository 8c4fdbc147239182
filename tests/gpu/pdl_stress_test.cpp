// Every built-in op, and a kernel that reads by bulk copies, behind a producer that releases its
// dependents at once and stores late: a thousand times the bits that a launch without PDL gives.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine_impl.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/gpu/support/replayed.hpp"
#include "tests/support/catch.hpp"
#include "tools/device_call.hpp"
#include "tools/op_case.hpp"

namespace kiln::gpu {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kRounds = 500;  // Eagerly, and as many replayed.

// As late_copy, for any number of bytes.
constexpr const char* kLateBytesSource = R"cuda(
template <bool PDL>
__global__ void __launch_bounds__(256)
late_bytes(const unsigned char* from, unsigned char* to, long long count, long long delay_ns) {
#if __CUDA_ARCH__ >= 900
  if (PDL) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
#endif
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while ((long long)(now - start) < delay_ns);
  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL) {
    to[i] = from[i];
  }
}
)cuda";

// Reads by cp.async.bulk, so through the async proxy, 4096 bytes a block.
constexpr const char* kBulkCopySource = R"cuda(
template <bool PDL>
__global__ void __launch_bounds__(128)
bulk_copy(const unsigned char* from, unsigned char* to, long long count) {
#if __CUDA_ARCH__ >= 900
  __shared__ __align__(128) unsigned char tile[4096];
  __shared__ __align__(8) unsigned long long barrier;
  const unsigned tile_at = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  const unsigned barrier_at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  const long long begin = blockIdx.x * 4096LL;
  const unsigned part = static_cast<unsigned>(count - begin < 4096 ? count - begin : 4096);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_at) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (PDL) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_at),
                 "r"(part)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(tile_at),
        "l"(from + begin), "r"(part), "r"(barrier_at)
        : "memory");
  }
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(done)
        : "r"(barrier_at)
        : "memory");
  }
  for (unsigned i = threadIdx.x; i < part; i += 128) {
    to[begin + i] = tile[i];
  }
#endif
}
)cuda";

Op byte_op(const std::string& kernel_name, const char* source, bool delayed) {
  ArgSpec from;
  from.name = "from";
  from.dtypes = {DType::kU8};
  from.shape = {"count"};
  ArgSpec to = from;
  to.name = "to";
  to.access = Access::kWrite;

  KernelSpec kernel;
  kernel.name = kernel_name;
  kernel.source = kernel_name + ".cu";
  kernel.instantiation = kernel_name + "<{PDL}>";
  kernel.params = {Param::data("from"), Param::data("to"), Param::dim("count")};

  Op op;
  op.name = "test_" + kernel_name;
  op.family = "test";
  op.summary = "Copies bytes.";
  op.args = {from, to};
  op.traits = {TraitSpec::boolean(std::string(kPdlTrait), "Programmatic dependent launch.")};
  op.choose = [](const Problem&, Traits&) {};
  if (delayed) {
    ArgSpec delay;
    delay.name = "delay_ns";
    op.args.push_back(delay);
    kernel.params.push_back(Param::scalar("delay_ns"));
    kernel.geometry = [](const Problem&, const Traits&) {
      return Geometry{.grid = {8, 1, 1}, .block = {256, 1, 1}, .cluster = {}};
    };
  } else {
    kernel.geometry = [](const Problem& problem, const Traits&) {
      const auto blocks = static_cast<std::uint32_t>((problem.dim("count") + 4095) / 4096);
      return Geometry{.grid = {blocks, 1, 1}, .block = {128, 1, 1}, .cluster = {}};
    };
  }
  op.kernels = {kernel};
  op.sources = {{kernel.source, source}};
  return op;
}

void late_bytes(const void* from, void* to, std::size_t bytes, std::int64_t delay_ns) {
  Gpu& gpu = Gpu::instance();
  const auto count = static_cast<std::int64_t>(bytes);
  const Tensor source(const_cast<void*>(from), DType::kU8, {count});
  const Tensor target(to, DType::kU8, {count});
  gpu.engine.launch("test_late_bytes", {source, target, delay_ns}, gpu.stream.get());
}

void register_copies() {
  register_once(byte_op("late_bytes", kLateBytesSource, true));
  register_once(byte_op("bulk_copy", kBulkCopySource, false));
}

/// One op's call whose inputs a producer stores late, and whose outputs a kernel behind it copies.
class StressedCall {
 public:
  StressedCall(const tools::OpCase& op_case)
      : driver_(value_or_throw(Gpu::instance().engine.impl().driver())),
        call_(Engine::Impl::bound(Gpu::instance().engine.op(op_case.op)), op_case,
              {.dims = {{op_case.rows, 8}}, .dtypes = {}}),
        device_(Gpu::instance().engine, driver_, call_) {
    for (std::size_t i = 0; i < call_.tensors().size(); ++i) {
      const tools::HostTensor& tensor = call_.tensors()[i];
      if (is_fresh(tensor)) {
        sources_.emplace(i, tensor.bytes())
            .first->second.upload(tensor.data.data(), tensor.bytes());
      }
      if (tensor.is_output() && tensor.bytes() > 0) {
        copies_.emplace(i, tensor.bytes());
      }
    }
    run_without_pdl();
  }

  bool has_fresh_input() const { return !sources_.empty(); }

  /// Outputs, their copies, and inputs hold nothing of the round before.
  void reset() {
    device_.reset(kPoison);
    for (const auto& [i, source] : sources_) {
      value_or_throw(device_.memory(i).fill(poison_of(call_.tensors()[i].dtype)));
    }
    for (const auto& [i, copy] : copies_) {
      copy.fill(kPoison);
    }
    KILN_CU(cuCtxSynchronize);
  }

  void record() {
    std::size_t left = sources_.size();
    for (const auto& [i, source] : sources_) {
      late_bytes(source.data(), device_.memory(i).data(), source.bytes(),
                 --left == 0 ? kDelayNs : 0);
    }
    device_.launch(Gpu::instance().stream.get(), true);
    for (const auto& [i, copy] : copies_) {
      late_bytes(device_.memory(i).data(), copy.data(), copy.bytes(), 0);
    }
  }

  /// What is wrong, or empty.
  std::string check() {
    for (const auto& [i, copy] : copies_) {
      const std::string name = call_.tensors()[i].arg->name;
      copied_.resize(copy.bytes());
      copy.download(copied_.data(), copied_.size());
      if (copied_ == expected_.at(i)) {
        continue;  // And so is what it was copied from.
      }
      return name + (device_.download(i) == expected_.at(i)
                         ? " was read by the next kernel before it was stored"
                         : " differs from what it is without PDL");
    }
    return "";
  }

 private:
  static constexpr unsigned char kPoison = 0xFF;
  // A larger one is a table, which no kernel before this one writes.
  static constexpr std::size_t kLargestFresh = std::size_t{1} << 20;

  static bool is_fresh(const tools::HostTensor& tensor) {
    return tensor.is_input() && !tensor.arg->constant && tensor.bytes() > 0 &&
           tensor.bytes() <= kLargestFresh;
  }
  // NaN, but of integers, which may be indices, one that is never out of bounds.
  static unsigned char poison_of(DType dtype) {
    const bool index = dtype == DType::kI32 || dtype == DType::kI64 || dtype == DType::kBool ||
                       dtype == DType::kU8;
    return index ? 0 : kPoison;
  }

  void run_without_pdl() {
    const Stream& stream = Gpu::instance().stream;
    device_.reset(kPoison);
    device_.launch(stream.get(), false);
    stream.synchronize();
    for (const auto& [i, copy] : copies_) {
      expected_.emplace(i, device_.download(i));
    }
  }

  std::shared_ptr<const runtime::Driver> driver_;
  tools::HostCall call_;
  tools::DeviceCall device_;
  std::map<std::size_t, Buffer> sources_;  // By tensor: what its producer copies from.
  std::map<std::size_t, Buffer> copies_;   // By tensor: where its consumer copies to.
  std::map<std::size_t, Bytes> expected_;
  Bytes copied_;
};

TEST_CASE(
    "Every op between a late producer and an early reader gives the bits it gives without PDL "
    "(field report 135)",
    "[stress]") {
  register_copies();
  for (const tools::OpCase& op_case : tools::builtin_cases()) {
    CAPTURE(op_case.op);
    StressedCall call(op_case);
    eagerly_and_replayed([&] { call.reset(); }, [&] { call.record(); },
                         [&] { REQUIRE(call.check() == ""); }, kRounds);
  }
}

TEST_CASE("A kernel that reads by bulk copies sees what a late producer stored (field report 133)",
          "[stress]") {
  if (Gpu::instance().target().major < 9) {
    WARN("skipped: bulk copies need compute capability 9.0");
    return;
  }
  register_copies();
  constexpr std::size_t kBytes = 100'000;  // The last block's part is smaller than a tile.
  static_assert(kBytes % 16 == 0);
  Bytes expected(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) {
    expected[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  const Buffer source(kBytes);
  const Buffer input(kBytes);
  const GuardedBuffer output(kBytes);
  source.upload(expected.data(), kBytes);
  const Tensor from(input.data(), DType::kU8, {static_cast<std::int64_t>(kBytes)});
  const Tensor to(output.data(), DType::kU8, {static_cast<std::int64_t>(kBytes)});
  Gpu& gpu = Gpu::instance();
  eagerly_and_replayed(
      [&] {
        input.fill(0xFF);
        output.poison(0xA5);
      },
      [&] {
        late_bytes(source.data(), input.data(), kBytes, kDelayNs);
        gpu.engine.launch("test_bulk_copy", {from, to}, gpu.stream.get());
      },
      [&] {
        const std::vector<std::uint8_t> got = output.download();
        REQUIRE(std::equal(got.begin(), got.end(), expected.begin(),
                           [](std::uint8_t a, std::byte b) { return std::byte{a} == b; }));
      },
      kRounds);
  CHECK(output.canaries_intact());
}

}  // namespace
}  // namespace kiln::gpu
