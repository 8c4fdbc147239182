// An engine's own op, from its CUDA source to its launch.
#include <cstdio>

#include <kiln/kiln.hpp>

#include "examples/device.h"

namespace {

kiln::Op axpy() {
  const auto vector = [](const char* name, kiln::Access access) {
    kiln::ArgSpec arg;
    arg.name = name;
    arg.dtypes = {kiln::DType::kF32};
    arg.shape = {"n"};
    arg.access = access;
    return arg;
  };
  kiln::Op op;
  op.name = "my_axpy";
  op.family = "mine";
  op.summary = "y = a * x + y";
  op.args = {{.name = "a", .scalar = kiln::ScalarType::kF32},
             vector("x", kiln::Access::kRead),
             vector("y", kiln::Access::kReadWrite)};
  kiln::KernelSpec kernel;
  kernel.name = "axpy";
  kernel.source = "axpy.cu";
  kernel.instantiation = "axpy<256>";
  kernel.params = {kiln::Param::scalar("a"), kiln::Param::data("x"), kiln::Param::data("y"),
                   kiln::Param::dim("n")};
  kernel.geometry = [](const kiln::Problem& problem, const kiln::Traits&) {
    const auto blocks = static_cast<std::uint32_t>((problem.dim("n") + 255) / 256);
    return kiln::Geometry{.grid = {blocks}, .block = {256}};
  };
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
  device_upload(x.dlpack().data, host, sizeof(host));
  device_upload(y.dlpack().data, host, sizeof(host));
  kiln::Engine engine;
  engine.register_op(axpy());
  engine.launch("my_axpy", {2.0, x, y}, nullptr);
  device_download(host, y.dlpack().data, sizeof(host));
  std::printf("y[0] = %g, where a GPU gives 3\n", static_cast<double>(host[0]));
}
