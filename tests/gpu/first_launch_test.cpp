// A kernel's first launch beside a kernel that spins until it is told to stop.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/gpu/support/add_op.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/host_memory.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr const char* kSpinSource = R"cuda(
template <bool PDL>
__global__ void __launch_bounds__(32) spin(const volatile int* stop, int* stopped) {
  while (*stop == 0) {
    __nanosleep(1000);
  }
  *stopped = 1;
}
)cuda";

/// One block that spins until stop[0] is not 0, and then sets stopped[0].
Op spin_op() {
  ArgSpec stop;
  stop.name = "stop";
  stop.dtypes = {DType::kI32};
  stop.shape = {"n"};
  stop.host_memory = true;
  ArgSpec stopped = stop;
  stopped.name = "stopped";
  stopped.access = Access::kWrite;
  stopped.host_memory = false;

  KernelSpec kernel;
  kernel.name = "spin";
  kernel.source = "spin.cu";
  kernel.instantiation = "spin<{PDL}>";
  kernel.params = {Param::data("stop"), Param::data("stopped")};
  kernel.geometry = [](const Problem&, const Traits&) {
    return Geometry{.grid = {1, 1, 1}, .block = {32, 1, 1}, .cluster = {}};
  };

  Op op;
  op.name = "test_spin";
  op.family = "test";
  op.summary = "Spins until it is told to stop.";
  op.args = {stop, stopped};
  op.traits = {TraitSpec::boolean(std::string(kPdlTrait), "Programmatic dependent launch.")};
  op.choose = [](const Problem&, Traits&) {};
  op.kernels = {kernel};
  op.sources = {{"spin.cu", kSpinSource}};
  return op;
}

/// The word in pinned memory that stops the spinning kernel: when it is told to, at the latest when
/// it goes, or after a while, so that a test which fails does not hang.
class StopWord {
 public:
  StopWord() : memory_(sizeof(int), false) {
    word().store(0);
    watchdog_ = std::thread([this] { watch(); });
  }
  ~StopWord() {
    stop();
    watchdog_.join();
  }
  StopWord(const StopWord&) = delete;
  StopWord& operator=(const StopWord&) = delete;

  void* device() const noexcept { return memory_.device(); }
  /// Whether the watchdog had not had to.
  bool stop() {
    const std::lock_guard lock(mutex_);
    told_ = true;
    told_or_late_.notify_all();
    word().store(1);
    return !late_;
  }

 private:
  std::atomic_ref<int> word() const {
    return std::atomic_ref<int>(*reinterpret_cast<int*>(memory_.host()));
  }
  void watch() {
    std::unique_lock lock(mutex_);
    late_ = !told_or_late_.wait_for(lock, std::chrono::seconds(20), [this] { return told_; });
    word().store(1);
  }

  HostMemory memory_;
  std::mutex mutex_;
  std::condition_variable told_or_late_;
  bool told_ = false;
  bool late_ = false;
  std::thread watchdog_;  // Last: it uses the others.
};

TEST_CASE("A loaded kernel's first launch does not wait for a kernel that spins (field report 119)",
          "[first_launch]") {
  constexpr int kNumber = 301;
  const Gpu& gpu = Gpu::instance();
  EngineOptions options;
  options.cache_root = gpu.cache.str();
  Engine engine(options);
  engine.register_op(spin_op());
  engine.register_op(add_op(kNumber));
  const Stream spinning;
  const Stream stream;
  const AddBuffer x;
  const AddBuffer out;
  const Buffer stopped(sizeof(int));
  const Tensor from = x.tensor();
  const Tensor to = out.tensor();
  x.fill(1);
  out.fill(-1);
  StopWord stop_word;
  const Tensor stop_tensor(stop_word.device(), DType::kI32, {1});
  const Tensor stopped_tensor(stopped.data(), DType::kI32, {1});
  const Plan spin = engine.plan("test_spin", {stop_tensor, stopped_tensor});
  const Plan add = engine.plan(add_name(kNumber), {from, to});

  spin.launch({stop_tensor, stopped_tensor}, spinning.get());
  add.launch({from, to}, stream.get());
  stream.synchronize();
  CHECK(stop_word.stop());
  spinning.synchronize();
  CHECK(out.holds(1.0F + kNumber));
}

}  // namespace
}  // namespace kiln::gpu
