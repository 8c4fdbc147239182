#pragma once

/// \file
/// The driver calls that GPU tests and benchmarks make for themselves (memory, streams, graphs),
/// apart from the runtime under test. libcuda is opened at run time, so these programs also start
/// where there is none.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>

namespace kiln::gpu {

/// A driver call that failed.
class CudaError : public std::runtime_error {
 public:
  CudaError(const char* call, CUresult result);
};

/// The address of a libcuda entry point; throws when libcuda or the symbol is missing.
void* symbol(const char* name);
void check(const char* call, CUresult result);

// cuda.h renames entry points by macro (cuMemAlloc is cuMemAlloc_v2), so the name is expanded
// first.
#define KILN_GPU_STRING_(name) #name
#define KILN_GPU_STRING(name) KILN_GPU_STRING_(name)
#define KILN_CU(function, ...)                              \
  ::kiln::gpu::check(KILN_GPU_STRING(function),             \
                     reinterpret_cast<decltype(&function)>( \
                         ::kiln::gpu::symbol(KILN_GPU_STRING(function)))(__VA_ARGS__))

/// Why no device can be used here, or empty when device 0 can.
std::string why_no_device();

/// Device 0's primary context, current on the constructing thread.
class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  std::string device_name() const;
  int attribute(CUdevice_attribute which) const;
  void make_current() const;

 private:
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

class Stream {
 public:
  Stream() { KILN_CU(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING); }
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUstream get() const noexcept { return stream_; }
  void synchronize() const { KILN_CU(cuStreamSynchronize, stream_); }

 private:
  CUstream stream_ = nullptr;
};

/// Plain device memory.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept
      : address_(std::exchange(other.address_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&&) = delete;

  void* data() const noexcept { return reinterpret_cast<void*>(address_); }
  CUdeviceptr address() const noexcept { return address_; }
  std::size_t bytes() const noexcept { return bytes_; }
  /// Done when it returns, so that work on any stream may follow.
  void fill(std::uint8_t byte) const;
  void upload(const void* from, std::size_t bytes, std::size_t offset = 0) const;
  void download(void* to, std::size_t bytes, std::size_t offset = 0) const {
    KILN_CU(cuMemcpyDtoH, to, address_ + offset, bytes);
  }

 private:
  CUdeviceptr address_ = 0;
  std::size_t bytes_ = 0;
};

/// An output between two canaries. poison() before each run; canaries_intact() after it.
class GuardedBuffer {
 public:
  static constexpr std::size_t kCanaryBytes = 4096;
  static constexpr std::uint8_t kCanary = 0xC5;

  explicit GuardedBuffer(std::size_t bytes);

  void* data() const noexcept { return static_cast<std::uint8_t*>(buffer_.data()) + kCanaryBytes; }
  std::size_t bytes() const noexcept { return bytes_; }
  void poison(std::uint8_t byte) const;
  std::vector<std::uint8_t> download() const;
  std::vector<std::uint16_t> download_u16() const;
  bool canaries_intact() const;

 private:
  Buffer buffer_;
  std::size_t bytes_;
};

/// What a capture of `record` on `stream` replays. Uploaded before its first launch: left to the
/// first launch, the upload was seen to cost every node of every replay up to 0.18 us on an H200
/// once the legacy default stream had been used.
class Graph {
 public:
  template <class Record>
  Graph(const Stream& stream, Record&& record,
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    KILN_CU(cuStreamBeginCapture, stream.get(), mode);
    record();
    KILN_CU(cuStreamEndCapture, stream.get(), &graph_);
    KILN_CU(cuGraphInstantiate, &executable_, graph_, 0);
    KILN_CU(cuGraphUpload, executable_, stream.get());
    stream.synchronize();
  }
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  CUgraph get() const noexcept { return graph_; }
  void launch(const Stream& stream) const { KILN_CU(cuGraphLaunch, executable_, stream.get()); }

 private:
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

class Event {
 public:
  Event() { KILN_CU(cuEventCreate, &event_, CU_EVENT_DEFAULT); }
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream& stream) const { KILN_CU(cuEventRecord, event_, stream.get()); }
  /// What is put on `stream` from now on waits for what was recorded.
  void hold(const Stream& stream) const { KILN_CU(cuStreamWaitEvent, stream.get(), event_, 0U); }
  void synchronize() const { KILN_CU(cuEventSynchronize, event_); }
  /// Milliseconds from `start` to this event; both must have completed.
  float since(const Event& start) const {
    float milliseconds = 0;
    KILN_CU(cuEventElapsedTime, &milliseconds, start.event_, event_);
    return milliseconds;
  }

 private:
  CUevent event_ = nullptr;
};

}  // namespace kiln::gpu
