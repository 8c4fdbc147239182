#pragma once

#include <string>

#include <kiln/kiln.h>

#include "c_api/op_spec.hpp"
#include "tests/runtime/engine/machine.hpp"

namespace kiln::test {

/// An op described in C: out[m, n] = factor * x[m, n] + bias[n], one row a block.
class CScale {
 public:
  CScale() {
    kernel.name = "scale";
    kernel.source = "scale.cu";
    kernel.instantiation = "scale<{PDL}>";
    kernel.params = params;
    kernel.param_count = 6;
    kernel.grid[0] = "ceil_div(m, 2)";
    kernel.block[0] = "128";
    spec.name = "c_scale";
    spec.args = args;
    spec.arg_count = 4;
    spec.kernels = &kernel;
    spec.kernel_count = 1;
    spec.sources = &source;
    spec.source_count = 1;
    spec.pdl = KILN_ON;
  }
  CScale(const CScale&) = delete;
  CScale& operator=(const CScale&) = delete;

  kiln_arg_spec args[4] = {
      {"x", nullptr, "f32", "m, n", 0, KILN_READ, KILN_FLAG_ROW_STRIDED, 0, {}},
      {"bias", nullptr, "f32", "n", 0, KILN_READ, KILN_FLAG_CONSTANT | KILN_FLAG_OPTIONAL, 0, {}},
      {"factor", nullptr, nullptr, nullptr, KILN_TYPE_F32, 0, 0, 0, {}},
      {"out", nullptr, "f32", "m, n", 0, KILN_WRITE, 0, 0, {}}};
  kiln_param_spec params[6] = {{KILN_PARAM_DATA, 0, 0, 0, "x"},
                               {KILN_PARAM_STRIDE, 0, KILN_TYPE_I64, 0, "x"},
                               {KILN_PARAM_DATA, 0, 0, 0, "bias"},
                               {KILN_PARAM_SCALAR, 0, 0, 0, "factor"},
                               {KILN_PARAM_DATA, 0, 0, 0, "out"},
                               {KILN_PARAM_EXPRESSION, 0, KILN_TYPE_I32, 0, "m * 2 + 1"}};
  kiln_kernel_spec kernel{};
  kiln_source source{"scale.cu", "template <bool PDL> __global__ void scale() {}\n"};
  kiln_op_spec spec = KILN_INIT(kiln_op_spec);
};

/// A fake machine with that op's kernels planted for sm_90, and a call of it.
class CMachine : public Machine {
 public:
  CMachine() {
    enter();
    fake().describe_kernel("scale_symbol", {8, 8, 8, 4, 8, 4});
    plant_for("sm_90");
  }

  void plant_for(const char* target) {
    Engine planter(Machine::options());
    planter.register_op(c_api::to_op(op.spec));
    plant(planter, "c_scale", target, cache_root());
  }

  kiln_engine_options options() {
    kiln_engine_options options = KILN_INIT(kiln_engine_options);
    options.driver = driver_.c_str();
    options.cache_root = root_.c_str();
    options.nvrtc = "/nonexistent/libnvrtc.so";
    options.check = KILN_OFF;
    options.jit = KILN_JIT_ALLOW;
    return options;
  }
  /// With the op registered.
  kiln_engine* engine() { return engine(options()); }
  kiln_engine* engine(const kiln_engine_options& with) {
    kiln_engine* made = nullptr;
    REQUIRE(kiln_engine_create(&with, &made) == KILN_OK);
    REQUIRE(kiln_register_op(made, &op.spec) == KILN_OK);
    return made;
  }

  CScale op;
  Tensor x{address(0x10000), DType::kF32, {3, 64}, {128, 1}};
  Tensor bias{address(0x20000), DType::kF32, {64}};
  Tensor out{address(0x30000000), DType::kF32, {3, 64}};
  kiln_arg args[4] = {kiln_tensor("out", &out.dlpack()), kiln_real("factor", 1.5),
                      kiln_tensor("x", &x.dlpack()), kiln_tensor("bias", &bias.dlpack())};

 private:
  std::string driver_ = dir().str("libcuda.so.1");
  std::string root_ = cache_root();
};

}  // namespace kiln::test
