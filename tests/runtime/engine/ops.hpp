#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <kiln/engine.hpp>

#include "tests/runtime/engine/machine.hpp"

/// Ops of the tests' own, small and with every kind of argument and parameter.
namespace kiln::test {

inline ArgSpec tensor_arg(std::string name, DType dtype, std::vector<Dim> shape,
                          Access access = Access::kRead) {
  ArgSpec arg;
  arg.name = std::move(name);
  arg.dtypes = {dtype};
  arg.shape = std::move(shape);
  arg.access = access;
  return arg;
}

inline ArgSpec scalar_arg(std::string name, ScalarType type) {
  ArgSpec arg;
  arg.name = std::move(name);
  arg.scalar = type;
  return arg;
}

/// out[m, n] = factor * x[m, n] + bias[n]: rows of x strided, bias constant, ROWS rows per block.
inline Op scale_op(const std::string& name = "scale") {
  Op op;
  op.name = name;
  op.family = "test";
  op.summary = "out = factor * x + bias";
  ArgSpec x = tensor_arg("x", DType::kF32, {"m", "n"});
  x.layout = Layout::kRowStrided;
  ArgSpec bias = tensor_arg("bias", DType::kF32, {"n"});
  bias.constant = true;
  op.args = {x, bias, scalar_arg("factor", ScalarType::kF32),
             tensor_arg("out", DType::kF32, {"m", "n"}, Access::kWrite)};
  op.traits = {TraitSpec::integers("ROWS", "rows per block", 1, 2),
               TraitSpec::boolean("PDL", "programmatic dependent launch")};
  KernelSpec kernel;
  kernel.name = "scale";
  kernel.source = "scale.cu";
  kernel.instantiation = "scale<{ROWS}, {PDL}>";
  kernel.params = {Param::data("x"),    Param::stride("x", 0),
                   Param::data("bias"), Param::scalar("factor"),
                   Param::data("out"),  Param::dim("m", ScalarType::kI32),
                   Param::dim("n"),     Param::constants_ready()};
  kernel.geometry = [](const Problem& problem, const Traits& traits) {
    const auto rows = static_cast<std::uint32_t>(problem.dim("m"));
    const auto per_block = static_cast<std::uint32_t>(traits["ROWS"]);
    return Geometry{.grid = {(rows + per_block - 1) / per_block, 1, 1}, .block = {128, 1, 1}};
  };
  op.kernels = {kernel};
  op.choose = [](const Problem& problem, Traits& traits) {
    traits.set("ROWS", problem.dim("m") >= 4 ? 2 : 1);
  };
  op.sources = {
      {"scale.cu",
       "template <int ROWS, bool PDL>\n"
       "__global__ void scale(const float* x, long long stride, const float* bias,\n"
       "                      float factor, float* out, int m, long long n, bool early) {\n"
       "  if (PDL) asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    const int row = blockIdx.x * ROWS + r;\n"
       "    for (long long c = threadIdx.x; row < m && c < n; c += 128)\n"
       "      out[row * n + c] = factor * x[row * stride + c] + bias[c];\n"
       "  }\n"
       "}\n"}};
  return op;
}

/// The sizes of the scale kernel's parameters, as its signature has them.
inline std::vector<std::size_t> scale_param_bytes() {
  return {8, 8, 8, 4, 8, 4, 8, 1};
}

/// Two kernels and a workspace of m floats between them.
inline Op two_step_op(const std::string& name = "two_step") {
  Op op;
  op.name = name;
  op.family = "test";
  op.summary = "sums rows, then scales by the sums";
  op.args = {tensor_arg("x", DType::kF32, {"m", "n"}),
             tensor_arg("out", DType::kF32, {"m", "n"}, Access::kWrite)};
  op.traits = {TraitSpec::boolean("PDL", "programmatic dependent launch")};
  const auto geometry = [](const Problem& problem, const Traits&) {
    return Geometry{.grid = {static_cast<std::uint32_t>(problem.dim("m")), 1, 1},
                    .block = {32, 1, 1}};
  };
  KernelSpec sums;
  sums.name = "sums";
  sums.source = "two_step.cu";
  sums.instantiation = "sums<{PDL}>";
  sums.params = {Param::data("x"), Param::workspace(), Param::dim("m"), Param::dim("n")};
  sums.geometry = geometry;
  KernelSpec scale = sums;
  scale.name = "apply";
  scale.instantiation = "apply<{PDL}>";
  scale.params = {Param::data("x"), Param::workspace(), Param::data("out"), Param::dim("m"),
                  Param::dim("n")};
  op.kernels = {sums, scale};
  op.workspace = [](const Problem& problem, const Traits&) {
    return static_cast<std::size_t>(problem.dim("m")) * sizeof(float);
  };
  op.sources = {
      {"two_step.cu",
       "template <bool PDL> __global__ void sums(const float*, float*, long long, long long) {}\n"
       "template <bool PDL> __global__ void apply(const float*, const float*, float*,\n"
       "                                          long long, long long) {}\n"}};
  return op;
}

/// A call of scale: tensors at made-up addresses. Change what a test is about, then launch.
struct ScaleCall {
  explicit ScaleCall(std::int64_t m = 3, std::int64_t n = 64, int device = 0)
      : x(address(0x10000), DType::kF32, {m, n}, {n + 64, 1}, device),
        bias(address(0x20000), DType::kF32, {n}, device),
        out(address(0x30000000), DType::kF32, {m, n}, device) {}

  Tensor x;
  Tensor bias;
  Tensor out;
  double factor = 1.5;

  void launch(Engine& engine, StreamHandle stream = nullptr, const LaunchOptions& options = {},
              const char* op = "scale") const {
    engine.launch(op, {x, bias, factor, out}, stream, options);
  }
};

/// A fake machine with an H200, a current context, and the scale op planted for sm_90.
class ScaleMachine : public Machine {
 public:
  explicit ScaleMachine(const Planted& planted = {}) {
    context = enter();
    fake().describe_kernel("scale_symbol", scale_param_bytes());
    Engine planter(options());
    planter.register_op(scale_op());
    plant(planter, "scale", "sm_90", cache_root(), planted);
  }
  Engine engine() { return engine(options()); }
  Engine engine(const EngineOptions& with) {
    Engine made(with);
    made.register_op(scale_op());
    return made;
  }
  CUcontext context = nullptr;
};

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace kiln::test
