#pragma once

/// \file
/// A kernel that adds a number: ops with different numbers are different kernels, so that a test
/// can have one that the process has never loaded.

#include <cstdint>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "tests/gpu/support/cuda.hpp"

namespace kiln::gpu {

inline constexpr std::int64_t kAddCount = 4096;

inline constexpr const char* kAddSource = R"cuda(
template <int N, bool PDL, bool WAITS>
__global__ void __launch_bounds__(256) add(const float* x, float* out, long long count) {
#if __CUDA_ARCH__ >= 900
  if (PDL && WAITS) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
#endif
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < count) {
    out[i] = x[i] + N;
  }
#if __CUDA_ARCH__ >= 900
  if (PDL) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  }
#endif
}
)cuda";

inline std::string add_name(int number) {
  return "test_add_" + std::to_string(number);
}

/// out = x + number. Without `waits` the kernel does not hold the PDL wait.
inline Op add_op(int number, bool waits = true) {
  ArgSpec x;
  x.name = "x";
  x.dtypes = {DType::kF32};
  x.shape = {"count"};
  ArgSpec out = x;
  out.name = "out";
  out.access = Access::kWrite;

  KernelSpec kernel;
  kernel.name = "add";
  kernel.source = "add.cu";
  kernel.instantiation =
      "add<" + std::to_string(number) + ", {PDL}, " + (waits ? "true>" : "false>");
  kernel.params = {Param::data("x"), Param::data("out"), Param::dim("count")};
  kernel.geometry = [](const Problem& problem, const Traits&) {
    const auto blocks = static_cast<std::uint32_t>((problem.dim("count") + 255) / 256);
    return Geometry{.grid = {blocks, 1, 1}, .block = {256, 1, 1}, .cluster = {}};
  };

  Op op;
  op.name = add_name(number);
  op.family = "test";
  op.summary = "Adds a number.";
  op.args = {x, out};
  op.traits = {TraitSpec::boolean(std::string(kPdlTrait), "Programmatic dependent launch.")};
  op.choose = [](const Problem&, Traits&) {};
  op.kernels = {kernel};
  op.sources = {{"add.cu", kAddSource}};
  return op;
}

/// kAddCount floats on the device.
class AddBuffer {
 public:
  AddBuffer() : buffer_(kAddCount * sizeof(float)) { fill(-1); }
  /// The i-th element becomes first + i.
  void fill(float first) const {
    std::vector<float> values(kAddCount);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = first + static_cast<float>(i);
    }
    buffer_.upload(values.data(), buffer_.bytes());
  }
  /// Whether that is what the elements are.
  bool holds(float first) const {
    std::vector<float> values(kAddCount);
    buffer_.download(values.data(), buffer_.bytes());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != first + static_cast<float>(i)) {
        return false;
      }
    }
    return true;
  }
  Tensor tensor() const { return Tensor(buffer_.data(), DType::kF32, {kAddCount}); }

 private:
  Buffer buffer_;
};

inline void add(Engine& engine, int number, const AddBuffer& x, const AddBuffer& out,
                CUstream stream) {
  const Tensor from = x.tensor();
  const Tensor to = out.tensor();
  engine.launch(add_name(number), {from, to}, stream);
}

}  // namespace kiln::gpu
