#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include <kiln/target.hpp>

#include "base/result.hpp"
#include "runtime/driver/api.hpp"

namespace kiln::runtime {

/// What is fixed about a device.
struct DeviceInfo {
  int ordinal = 0;
  CUdevice handle = 0;
  std::string name;
  ComputeCapability capability;
  int multiprocessors = 0;
  int max_shared_bytes_per_block = 0;  ///< With opt-in: static plus dynamic.
};

/// A loaded and initialised libcuda. Never unloaded. Immutable, so all members may be called from
/// any thread.
class Driver {
 public:
  /// The oldest driver that Kiln works with, as cuDriverGetVersion counts.
  static constexpr int kOldestVersion = 12000;

  /// Opens `path`, or libcuda.so.1 along the loader's path when it is empty, and calls cuInit.
  /// Errors are kDriverUnavailable and say what was tried.
  static Result<std::shared_ptr<const Driver>> load(const std::string& path);

  const DriverApi& api() const noexcept { return api_; }
  int version() const noexcept { return version_; }  ///< 13000 is CUDA 13.0.
  int major() const noexcept { return version_ / 1000; }
  std::string version_text() const;                           ///< "13.0".
  const std::string& path() const noexcept { return path_; }  ///< Of the file that was opened.
  /// Equal for two Drivers exactly when they are the same loaded library.
  const void* identity() const noexcept { return handle_; }
  /// kDriverUnavailable in a process that was forked from the one that loaded this.
  Status check_process() const;

  std::span<const DeviceInfo> devices() const noexcept { return devices_; }
  /// The device, or kInvalidArgument saying how many there are.
  Result<const DeviceInfo*> device(int ordinal) const;

  /// Success, or kDriverError: "cuLaunchKernelEx failed: CUDA_ERROR_INVALID_VALUE (invalid
  /// argument)". An error that every later call will give too says so.
  Status check(const char* call, CUresult result) const;
  std::string error_text(const char* call, CUresult result) const;

 private:
  Driver() = default;
  Status resolve();
  Status read_devices();

  void* handle_ = nullptr;
  std::string path_;
  DriverApi api_;
  int version_ = 0;
  std::vector<DeviceInfo> devices_;
  pid_t process_ = -1;  // That loaded it.
};

}  // namespace kiln::runtime
