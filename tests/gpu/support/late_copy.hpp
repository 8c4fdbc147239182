#pragma once

/// \file
/// The worst producer there is under programmatic dependent launch: it releases its dependents at
/// once and stores after a delay.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "tests/gpu/support/gpu.hpp"

namespace kiln::gpu {

inline constexpr std::int64_t kDelayNs = 100'000;

inline constexpr const char* kLateCopySource = R"cuda(
template <bool PDL>
__global__ void __launch_bounds__(256)
late_copy(const unsigned short* from, unsigned short* to, long long count, long long delay_ns) {
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

inline Op late_copy_op() {
  ArgSpec from;
  from.name = "from";
  from.dtypes = {DType::kBF16};
  from.shape = {"count"};
  from.alignment = 2;
  ArgSpec to = from;
  to.name = "to";
  to.access = Access::kWrite;
  ArgSpec delay;
  delay.name = "delay_ns";

  KernelSpec kernel;
  kernel.name = "late_copy";
  kernel.source = "late_copy.cu";
  kernel.instantiation = "late_copy<{PDL}>";
  kernel.params = {Param::data("from"), Param::data("to"), Param::dim("count"),
                   Param::scalar("delay_ns")};
  kernel.geometry = [](const Problem&, const Traits&) {
    return Geometry{.grid = {8, 1, 1}, .block = {256, 1, 1}, .cluster = {}};
  };

  Op op;
  op.name = "test_late_copy";
  op.family = "test";
  op.summary = "Copies after a delay, having released its dependents.";
  op.args = {from, to, delay};
  op.traits = {TraitSpec::boolean(std::string(kPdlTrait), "Programmatic dependent launch.")};
  op.choose = [](const Problem&, Traits&) {};
  op.kernels = {kernel};
  op.sources = {{"late_copy.cu", kLateCopySource}};
  return op;
}

/// Registers an op of the tests' own once.
inline void register_once(Op op) {
  Gpu& gpu = Gpu::instance();
  const std::vector<std::string> names = gpu.engine.op_names();
  if (std::find(names.begin(), names.end(), op.name) == names.end()) {
    gpu.engine.register_op(std::move(op));
  }
}

/// Copies `bytes`, an even number, on the tests' stream, after the delay.
inline void late_copy(const void* from, void* to, std::size_t bytes, std::int64_t delay_ns) {
  register_once(late_copy_op());
  Gpu& gpu = Gpu::instance();
  const auto count = static_cast<std::int64_t>(bytes / 2);
  const Tensor source(const_cast<void*>(from), DType::kBF16, {count});
  const Tensor target(to, DType::kBF16, {count});
  gpu.engine.launch("test_late_copy", {source, target, delay_ns}, gpu.stream.get());
}

}  // namespace kiln::gpu
