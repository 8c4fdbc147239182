// Owners for the few driver and NVRTC handles the device-time programs need. Errors are exceptions:
// a benchmark has nothing to fall back to.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include <cuda.h>
#include <nvrtc.h>

namespace kiln::bench {

inline void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) {
    return;
  }
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  throw std::runtime_error(std::string(what) + ": " + (text != nullptr ? text : "unknown error"));
}

inline void check(nvrtcResult result, const char* what) {
  if (result != NVRTC_SUCCESS) {
    throw std::runtime_error(std::string(what) + ": " + nvrtcGetErrorString(result));
  }
}

// A handle with one destroy function; move-only.
template <typename Handle, auto Destroy>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle handle) : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (handle_ != Handle{}) {
      Destroy(handle_);
    }
  }

  [[nodiscard]] Handle get() const { return handle_; }
  [[nodiscard]] Handle* out() { return &handle_; }

 private:
  Handle handle_{};
};

using Stream = Owner<CUstream, cuStreamDestroy>;
using Event = Owner<CUevent, cuEventDestroy>;
using Graph = Owner<CUgraph, cuGraphDestroy>;
using GraphExec = Owner<CUgraphExec, cuGraphExecDestroy>;
using Library = Owner<CUlibrary, cuLibraryUnload>;
using DeviceMemory = Owner<CUdeviceptr, cuMemFree>;

inline DeviceMemory allocate(std::size_t bytes) {
  DeviceMemory memory;
  check(cuMemAlloc(memory.out(), bytes), "cuMemAlloc");
  return memory;
}

}  // namespace kiln::bench
