// An engine's own op, from its CUDA source to its launch.
#include <cstdio>

#include <kiln/kiln.hpp>

#include "examples/device.h"

namespace {

kiln::OpSpec axpy() {
  kiln::KernelSpec kernel;
  kernel.name = "axpy";
  kernel.source = "axpy.cu";
  kernel.instantiation = "axpy<256>";
  kernel.params = {kiln::Param::scalar("a"), kiln::Param::data("x"), kiln::Param::data("y"),
                   kiln::Param::expression("n")};
  kernel.grid = {"ceil_div(n, 256)"};
  kernel.block = {"256"};
  kiln::OpSpec op;
  op.name = "my_axpy";
  op.summary = "y = a * x + y";
  op.args = {kiln::ArgSpec::scalar("a", kiln::ScalarType::kF32),
             kiln::ArgSpec::tensor("x", "f32", "n"),
             kiln::ArgSpec::tensor("y", "f32", "n", kiln::Access::kReadWrite)};
  op.kernels = {kernel};
  op.sources = {{"axpy.cu", R"(
template <int BLOCK> __global__ void axpy(float a, const float* x, float* y, long long n) {
  const long long i = blockIdx.x * static_cast<long long>(BLOCK) + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
})"}};
  return op;
}

}  // namespace

int main() {
  device_open();
  float host[256] = {1};
  const kiln::Tensor x(device_alloc(sizeof(host)), kiln::DType::kF32, {256});
  const kiln::Tensor y(device_alloc(sizeof(host)), kiln::DType::kF32, {256});
  device_upload(x.data(), host, sizeof(host));
  device_upload(y.data(), host, sizeof(host));
  kiln::Engine engine;
  engine.register_op(axpy());
  engine.launch("my_axpy", {2.0, x, y}, nullptr);
  device_download(host, y.data(), sizeof(host));
  std::printf("y[0] = %g, where a GPU gives 3\n", static_cast<double>(host[0]));
}
