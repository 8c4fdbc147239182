#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/gpu/support/cuda.hpp"

namespace kiln::gpu {

/// Page-locked host memory that the device can address: allocated by the driver, or, `mapped`,
/// ordinary memory that was registered with it.
class HostMemory {
 public:
  HostMemory(std::size_t bytes, bool mapped) : mapped_(mapped) {
    constexpr std::size_t kPage = 4096;
    bytes = (bytes / kPage + 1) * kPage;
    if (mapped_) {
      memory_ = std::aligned_alloc(kPage, bytes);
      KILN_CU(cuMemHostRegister, memory_, bytes, CU_MEMHOSTREGISTER_DEVICEMAP);
    } else {
      KILN_CU(cuMemHostAlloc, &memory_, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
    }
    KILN_CU(cuMemHostGetDevicePointer, &device_, memory_, 0);
  }
  ~HostMemory() {
    if (memory_ == nullptr) {
      return;
    }
    try {
      if (mapped_) {
        KILN_CU(cuMemHostUnregister, memory_);
      } else {
        KILN_CU(cuMemFreeHost, memory_);
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    if (mapped_) {
      std::free(memory_);
    }
  }
  HostMemory(HostMemory&& other) noexcept
      : mapped_(other.mapped_),
        memory_(std::exchange(other.memory_, nullptr)),
        device_(other.device_) {}
  HostMemory& operator=(HostMemory&&) = delete;

  std::uint8_t* host() const noexcept { return static_cast<std::uint8_t*>(memory_); }
  void* device() const noexcept { return reinterpret_cast<void*>(device_); }

 private:
  bool mapped_;
  void* memory_ = nullptr;
  CUdeviceptr device_ = 0;
};

}  // namespace kiln::gpu
