#pragma once

/// \file
/// The bits of rsqrt.approx.ftz.f32 are the device's: references that need them take them from
/// there, through this op of one thread.

#include <kiln/op.hpp>

namespace kiln::tools {

/// rsqrt_probe(from [count] f32, to [count] f32).
inline Op rsqrt_probe_op() {
  ArgSpec from;
  from.name = "from";
  from.dtypes = {DType::kF32};
  from.shape = {"count"};
  ArgSpec to = from;
  to.name = "to";
  to.access = Access::kWrite;
  KernelSpec kernel;
  kernel.name = "probe";
  kernel.source = "rsqrt_probe.cu";
  kernel.instantiation = "rsqrt_probe<0>";
  kernel.params = {Param::data("from"), Param::data("to"), Param::dim("count")};
  kernel.geometry = [](const Problem&, const Traits&) {
    return Geometry{.grid = {1, 1, 1}, .block = {1, 1, 1}, .cluster = {}};
  };
  Op op;
  op.name = "rsqrt_probe";
  op.family = "probe";
  op.summary = "One thread, one instruction for each value.";
  op.args = {from, to};
  op.kernels = {kernel};
  op.sources = {{"rsqrt_probe.cu", R"cuda(
template <int>
__global__ void rsqrt_probe(const float* from, float* to, long long count) {
  for (long long i = 0; i < count; ++i)
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(to[i]) : "f"(from[i]));
}
)cuda"}};
  return op;
}

}  // namespace kiln::tools
