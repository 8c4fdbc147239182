#pragma once

/// \file
/// A libcuda.so.1 for machines without a GPU: the entry points that Kiln calls, simulated devices
/// and contexts, a record of what was called, and failures on demand. A test opens a copy of the
/// library of its own (see FakeDriver), so that no state is shared between tests.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <cuda.h>

namespace kiln::fake {

struct Device {
  std::string name = "Fake H200";
  int major = 9;
  int minor = 0;
  int multiprocessors = 132;
  int max_shared_bytes_per_block = 232448;
  int blocks_per_multiprocessor = 2;  ///< What every occupancy query answers.
};

/// One accepted cuLaunchKernelEx.
struct Launch {
  std::string symbol;
  std::string image;  ///< The bytes that the function's library was loaded from.
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  unsigned grid[3] = {0, 0, 0};
  unsigned block[3] = {0, 0, 0};
  unsigned shared_bytes = 0;
  std::vector<CUlaunchAttribute> attributes;
  /// The parameters' bytes, copied at the launch, for kernels whose signature was described.
  std::vector<std::string> params;

  /// Null when the launch had no such attribute.
  const CUlaunchAttribute* attribute(CUlaunchAttributeID id) const {
    for (const CUlaunchAttribute& attribute : attributes) {
      if (attribute.id == id) {
        return &attribute;
      }
    }
    return nullptr;
  }
};

/// What a test sets and reads. Any thread.
class Control {
 public:
  virtual void set_devices(std::vector<Device> devices) = 0;  ///< Initially one Device{}.
  /// Initially 13000. Entry points introduced later are not found.
  virtual void set_version(int version) = 0;

  virtual CUcontext make_context(int device) = 0;
  /// Of the calling thread; null for none. Initially none.
  virtual void set_current(CUcontext context) = 0;
  virtual CUstream make_stream(CUcontext context) = 0;
  /// Of a stream that synchronises with the legacy default stream; make_stream's do not.
  virtual CUstream make_blocking_stream(CUcontext context) = 0;
  virtual void set_capturing(CUstream stream, bool capturing) = 0;
  /// Whether a call that a capture forbids was made while this stream was being captured. Every
  /// capture counts as of the global mode.
  virtual bool spoiled(CUstream stream) = 0;

  /// The next `times` calls of the function fail.
  virtual void fail(const std::string& function, CUresult result, int times) = 0;
  /// Images that contain `part` are refused when loaded.
  virtual void refuse_images(const std::string& part) = 0;
  /// The sizes of a kernel's parameters, as its image would tell. Without it parameters are neither
  /// copied nor described.
  virtual void describe_kernel(const std::string& symbol, std::vector<std::size_t> param_bytes) = 0;
  /// Called in each recorded launch, with it: stands in for what the kernel would do.
  virtual void on_launch(std::function<void(const Launch&)> kernel) = 0;
  /// What lies between any two events. Initially 0.1 ms.
  virtual void set_event_milliseconds(float milliseconds) = 0;
  /// Memory that pointer queries know. `device` -1 is host memory.
  virtual void add_memory(std::uint64_t address, std::uint64_t bytes, int device) = 0;

  /// Names of the calls so far, in order, error texts and the look-up of entry points aside.
  virtual std::vector<std::string> calls() = 0;
  virtual std::size_t count(const std::string& function) = 0;
  virtual std::vector<Launch> launches() = 0;
  virtual void forget_calls() = 0;  ///< Calls and launches.
  /// Off: calls are only counted (see total), and the fake neither locks nor allocates in a launch.
  virtual void set_recording(bool on) = 0;
  virtual std::uint64_t total() = 0;  ///< Calls of any function since the library was opened.

  /// What the driver knows of a kernel's static shared memory; asked of others, it fails.
  virtual void set_static_shared(const std::string& symbol, int bytes) = 0;
  /// What cuFuncSetAttribute last set, or -1.
  virtual int function_attribute(const std::string& symbol, CUfunction_attribute attribute) = 0;
  /// This thread's capture mode, and the one it had at each library load.
  virtual CUstreamCaptureMode capture_mode() = 0;
  virtual std::vector<CUstreamCaptureMode> load_capture_modes() = 0;

 protected:
  ~Control() = default;
};

/// The library's one extra entry point, of this type.
inline constexpr const char* kControlSymbol = "kiln_fake_driver_control";
using ControlFunction = Control* (*)();

}  // namespace kiln::fake
