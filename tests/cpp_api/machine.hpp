#pragma once

/// \file
/// A fake machine for tests of the C++ door.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <kiln/kiln.hpp>

#include "tests/cpp_api/wall.hpp"
#include "tests/fake_driver/fake_driver.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"

namespace kiln::test {

template <>
struct ErrorWith<ErrorCode> {
  using Type = Error;
};

/// A driver and a cache of its own, with c_scale's kernels for sm_90 in it; a context of device 0
/// is current.
class DoorMachine {
 public:
  fake::Control& fake() { return wall_->fake(); }
  CUcontext enter() { return wall_->enter(); }
  /// Of this machine's own folder.
  std::string path(const std::string& name) const { return wall_->path(name); }
  /// Leaves c_scale's kernels for another target in the cache.
  void plant_for(const char* target) { wall_->plant_for(target); }
  /// Serves from the cache, and has nothing to compile with.
  EngineOptions options() const {
    EngineOptions options;
    options.driver = path("libcuda.so.1");
    options.cache_root = wall_->cache_root();
    options.nvrtc = "/nonexistent/libnvrtc.so";
    options.check = false;
    options.jit = JitPolicy::kAllow;
    return options;
  }

 private:
  std::unique_ptr<Wall> wall_ = make_wall();
};

/// Memory that nothing ever reads.
inline void* place(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

/// c_scale in the door's words: out[m, n] = factor * x[m, n] + bias[n].
inline OpSpec scale_op() {
  OpSpec op;
  op.name = "c_scale";
  op.args = {ArgSpec::tensor("x", "f32", "m, n"), ArgSpec::tensor("bias", "f32", "n"),
             ArgSpec::scalar("factor", ScalarType::kF32),
             ArgSpec::tensor("out", "f32", "m, n", Access::kWrite)};
  op.args[0].row_strided = true;
  op.args[1].constant = true;
  op.args[1].optional = true;
  KernelSpec kernel;
  kernel.name = "scale";
  kernel.source = "scale.cu";
  kernel.instantiation = "scale<{PDL}>";
  kernel.params = {Param::data("x"),    Param::stride("x", 0),
                   Param::data("bias"), Param::scalar("factor"),
                   Param::data("out"),  Param::expression("m * 2 + 1", ScalarType::kI32)};
  kernel.grid = {"ceil_div(m, 2)"};
  kernel.block = {"128"};
  op.kernels = {kernel};
  op.sources = {{"scale.cu", "template <bool PDL> __global__ void scale() {}\n"}};
  op.pdl = true;
  return op;
}

/// The tensors of a call of it.
struct ScaleCall {
  Tensor x{place(0x10000), DType::kF32, {3, 64}, {128, 1}};
  Tensor bias{place(0x20000), DType::kF32, {64}};
  Tensor out{place(0x30000000), DType::kF32, {3, 64}};
};

/// With c_scale.
inline Engine scale_engine(const EngineOptions& options) {
  Engine engine(options);
  engine.register_op(scale_op());
  return engine;
}

template <class T>
std::string bytes_of(const T& value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

}  // namespace kiln::test
