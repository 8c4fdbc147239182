#include "tools/bench/probes.hpp"

#include <string>

namespace kiln::tools::bench {
namespace {

constexpr const char* kSource = R"cuda(
#include "prelude/pdl.cuh"
#include "prelude/types.cuh"

namespace kiln_bench {

template <bool PDL>
__global__ void __launch_bounds__(32) empty(const unsigned char*) {
  kiln::wait_for_prerequisites<PDL>();
  kiln::launch_dependents<PDL>();
}

template <int>
__global__ void __launch_bounds__(32) delay(const unsigned char*, kiln::int64 nanoseconds) {
  kiln::int64 begin;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  kiln::int64 now = begin;
  while (now - begin < nanoseconds) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  }
}

}  // namespace kiln_bench
)cuda";

Op one_block_op(const std::string& name, const std::string& instantiation) {
  ArgSpec where;
  where.name = "where";
  where.dtypes = {DType::kU8};
  where.shape = {"count"};
  KernelSpec kernel;
  kernel.name = name;
  kernel.source = "bench_probes.cu";
  kernel.instantiation = instantiation;
  kernel.params = {Param::data("where")};
  kernel.geometry = [](const Problem&, const Traits&) {
    return Geometry{.grid = {1, 1, 1}, .block = {32, 1, 1}, .cluster = {}};
  };
  Op op;
  op.name = name;
  op.family = "probe";
  op.summary = "A kernel of one small block.";
  op.args = {where};
  op.kernels = {kernel};
  op.sources = {{"bench_probes.cu", kSource}};
  return op;
}

}  // namespace

Op empty_op() {
  Op op = one_block_op("bench_empty", "kiln_bench::empty<{PDL}>");
  op.traits = {TraitSpec::boolean(std::string(kPdlTrait), "programmatic dependent launch")};
  return op;
}

Op delay_op() {
  Op op = one_block_op("bench_delay", "kiln_bench::delay<0>");
  ArgSpec nanoseconds;
  nanoseconds.name = "nanoseconds";
  op.args.push_back(nanoseconds);
  op.kernels[0].params.push_back(Param::scalar("nanoseconds"));
  return op;
}

}  // namespace kiln::tools::bench
