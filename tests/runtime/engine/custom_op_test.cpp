// What an engine writes to have an op of its own: well under 60 lines, from include to launch.
// [custom_op.begin]
#include <kiln/engine.hpp>

namespace {

kiln::Op axpy() {
  kiln::Op op;
  op.name = "my_axpy";
  op.family = "mine";
  op.summary = "out[i] = a * x[i] + y[i]";
  const auto tensor = [](const char* name, kiln::Access access) {
    kiln::ArgSpec arg;
    arg.name = name;
    arg.dtypes = {kiln::DType::kF32};
    arg.shape = {"n"};
    arg.access = access;
    return arg;
  };
  kiln::ArgSpec a;
  a.name = "a";
  a.scalar = kiln::ScalarType::kF32;
  op.args = {a, tensor("x", kiln::Access::kRead), tensor("y", kiln::Access::kRead),
             tensor("out", kiln::Access::kWrite)};
  kiln::KernelSpec kernel;
  kernel.name = "axpy";
  kernel.source = "axpy.cu";
  kernel.instantiation = "axpy<256>";
  kernel.params = {kiln::Param::scalar("a"), kiln::Param::data("x"), kiln::Param::data("y"),
                   kiln::Param::data("out"), kiln::Param::dim("n")};
  kernel.geometry = [](const kiln::Problem& problem, const kiln::Traits&) {
    const auto blocks = static_cast<std::uint32_t>((problem.dim("n") + 255) / 256);
    return kiln::Geometry{.grid = {blocks, 1, 1}, .block = {256, 1, 1}};
  };
  op.kernels = {kernel};
  op.sources = {{"axpy.cu", R"(
template <int BLOCK>
__global__ void axpy(float a, const float* x, const float* y, float* out, long long n) {
  const long long i = blockIdx.x * static_cast<long long>(BLOCK) + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
})"}};
  return op;
}

void run_axpy(kiln::Engine& engine, float* x, float* y, float* out, std::int64_t n, void* stream) {
  engine.register_op(axpy());
  const kiln::Tensor tx(x, kiln::DType::kF32, {n}), ty(y, kiln::DType::kF32, {n}),
      tout(out, kiln::DType::kF32, {n});
  engine.launch("my_axpy", {2.0, tx, ty, tout}, stream);
}

}  // namespace
// [custom_op.end]

#include "tests/runtime/engine/compile_support.hpp"

namespace kiln::test {

TEST_CASE("An op of the engine's own, with its own CUDA source, compiles, is stored and launches") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  Engine engine(machine.options());
  const auto at = [](std::uint64_t value) { return static_cast<float*>(address(value)); };
  run_axpy(engine, at(0x10000), at(0x20000), at(0x30000), 1000, nullptr);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 1);
  CHECK(contains(launches[0].symbol, "axpy"));
  CHECK(launches[0].grid[0] == 4);
  CHECK(launches[0].attributes.empty());
  CHECK(engine.counters().compiles == 1);

  Engine next(machine.options());
  run_axpy(next, at(0x10000), at(0x20000), at(0x30000), 1000, nullptr);
  CHECK(next.counters().compiles == 0);
  CHECK(next.counters().cache_hits == 1);
}

}  // namespace kiln::test
