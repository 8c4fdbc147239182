#include "tests/gpu/support/cuda.hpp"

#include <algorithm>
#include <cstdio>

#include <dlfcn.h>

namespace kiln::gpu {
namespace {

// Opened once for the life of the program, like any other shared library it needs.
void* driver_library() {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library;
}

template <class... Parameters, class... Arguments>
CUresult try_call(CUresult (*)(Parameters...), const char* name, Arguments... arguments) {
  return reinterpret_cast<CUresult (*)(Parameters...)>(symbol(name))(arguments...);
}

#define KILN_TRY_CU(function, ...) try_call(&function, KILN_GPU_STRING(function), __VA_ARGS__)

// cuMemset and copies between device buffers return before they are done, and streams that do not
// synchronise with the legacy one would overtake them.
void finish() {
  KILN_CU(cuCtxSynchronize);
}

// Destructors report and never throw.
void report(const char* call, CUresult result) {
  if (result != CUDA_SUCCESS) {
    std::fprintf(stderr, "%s failed with CUDA error %d\n", call, static_cast<int>(result));
  }
}

std::string describe(const char* call, CUresult result) {
  const char* name = nullptr;
  if (KILN_TRY_CU(cuGetErrorName, result, &name) != CUDA_SUCCESS || name == nullptr) {
    name = "an unknown error";
  }
  return std::string(call) + " returned " + name;
}

}  // namespace

CudaError::CudaError(const char* call, CUresult result)
    : std::runtime_error(describe(call, result)) {}

void* symbol(const char* name) {
  if (driver_library() == nullptr) {
    throw std::runtime_error("libcuda.so.1 cannot be opened");
  }
  void* const address = dlsym(driver_library(), name);
  if (address == nullptr) {
    throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  }
  return address;
}

void check(const char* call, CUresult result) {
  if (result != CUDA_SUCCESS) {
    throw CudaError(call, result);
  }
}

std::string why_no_device() {
  if (driver_library() == nullptr) {
    return "libcuda.so.1 cannot be opened";
  }
  const CUresult initialised = KILN_TRY_CU(cuInit, 0U);
  if (initialised != CUDA_SUCCESS) {
    return describe("cuInit", initialised);
  }
  int count = 0;
  if (KILN_TRY_CU(cuDeviceGetCount, &count) != CUDA_SUCCESS || count == 0) {
    return "the driver lists no device";
  }
  return "";
}

Context::Context() {
  KILN_CU(cuInit, 0);
  KILN_CU(cuDeviceGet, &device_, 0);
  KILN_CU(cuDevicePrimaryCtxRetain, &context_, device_);
  make_current();
}

Context::~Context() {
  report("cuDevicePrimaryCtxRelease", KILN_TRY_CU(cuDevicePrimaryCtxRelease, device_));
}

std::string Context::device_name() const {
  char name[256] = {};
  KILN_CU(cuDeviceGetName, name, static_cast<int>(sizeof(name)), device_);
  return name;
}

int Context::attribute(CUdevice_attribute which) const {
  int value = 0;
  KILN_CU(cuDeviceGetAttribute, &value, which, device_);
  return value;
}

void Context::make_current() const {
  KILN_CU(cuCtxSetCurrent, context_);
}

Stream::~Stream() {
  report("cuStreamDestroy", KILN_TRY_CU(cuStreamDestroy, stream_));
}

Buffer::Buffer(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
  KILN_CU(cuMemAlloc, &address_, bytes_);
}

Buffer::~Buffer() {
  if (address_ != 0) {
    report("cuMemFree", KILN_TRY_CU(cuMemFree, address_));
  }
}

void Buffer::fill(std::uint8_t byte) const {
  KILN_CU(cuMemsetD8, address_, byte, bytes_);
  finish();
}

void Buffer::upload(const void* from, std::size_t bytes, std::size_t offset) const {
  KILN_CU(cuMemcpyHtoD, address_ + offset, from, bytes);
  finish();
}

GuardedBuffer::GuardedBuffer(std::size_t bytes) : buffer_(bytes + 2 * kCanaryBytes), bytes_(bytes) {
  buffer_.fill(kCanary);
}

void GuardedBuffer::poison(std::uint8_t byte) const {
  if (bytes_ != 0) {
    KILN_CU(cuMemsetD8, buffer_.address() + kCanaryBytes, byte, bytes_);
    finish();
  }
}

std::vector<std::uint8_t> GuardedBuffer::download() const {
  std::vector<std::uint8_t> host(bytes_);
  if (!host.empty()) {
    buffer_.download(host.data(), bytes_, kCanaryBytes);
  }
  return host;
}

std::vector<std::uint16_t> GuardedBuffer::download_u16() const {
  std::vector<std::uint16_t> host(bytes_ / 2);
  if (!host.empty()) {
    buffer_.download(host.data(), bytes_, kCanaryBytes);
  }
  return host;
}

bool GuardedBuffer::canaries_intact() const {
  std::vector<std::uint8_t> canary(kCanaryBytes);
  const auto intact = [&](std::size_t offset) {
    buffer_.download(canary.data(), kCanaryBytes, offset);
    return std::all_of(canary.begin(), canary.end(), [](std::uint8_t b) { return b == kCanary; });
  };
  return intact(0) && intact(kCanaryBytes + bytes_);
}

Graph::~Graph() {
  report("cuGraphExecDestroy", KILN_TRY_CU(cuGraphExecDestroy, executable_));
  report("cuGraphDestroy", KILN_TRY_CU(cuGraphDestroy, graph_));
}

Event::~Event() {
  report("cuEventDestroy", KILN_TRY_CU(cuEventDestroy, event_));
}

}  // namespace kiln::gpu
