#pragma once

#include <cstddef>
#include <memory>

#include "base/result.hpp"
#include "runtime/driver/driver.hpp"

/// Owners of driver handles, for the library's own tools. Move-only; a destructor releases and
/// ignores errors, since there is nobody left to tell.
namespace kiln::runtime {

/// A device's primary context, made current on the calling thread.
class PrimaryContext {
 public:
  static Result<PrimaryContext> retain(const std::shared_ptr<const Driver>& driver, int ordinal);
  ~PrimaryContext();
  PrimaryContext(PrimaryContext&& other) noexcept;
  PrimaryContext& operator=(PrimaryContext&&) = delete;

 private:
  PrimaryContext(std::shared_ptr<const Driver> driver, CUdevice device) noexcept
      : driver_(std::move(driver)), device_(device) {}
  std::shared_ptr<const Driver> driver_;  // Null when moved from.
  CUdevice device_;
};

/// Memory on the current context's device.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(std::shared_ptr<const Driver> driver, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  void* data() const noexcept { return reinterpret_cast<void*>(address_); }
  std::size_t bytes() const noexcept { return bytes_; }
  Status upload(const void* from, std::size_t bytes);  ///< Waits until done.
  Status download(void* to, std::size_t bytes) const;  ///< Waits until done.
  Status fill(unsigned char value);

 private:
  DeviceMemory(std::shared_ptr<const Driver> driver, CUdeviceptr address,
               std::size_t bytes) noexcept
      : driver_(std::move(driver)), address_(address), bytes_(bytes) {}
  std::shared_ptr<const Driver> driver_;  // Null when moved from.
  CUdeviceptr address_;
  std::size_t bytes_;
};

/// A stream of the current context that does not synchronise with the legacy default stream.
class Stream {
 public:
  static Result<Stream> create(std::shared_ptr<const Driver> driver);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&&) = delete;

  CUstream get() const noexcept { return stream_; }
  Status synchronize() const;

 private:
  Stream(std::shared_ptr<const Driver> driver, CUstream stream) noexcept
      : driver_(std::move(driver)), stream_(stream) {}
  std::shared_ptr<const Driver> driver_;  // Null when moved from.
  CUstream stream_;
};

}  // namespace kiln::runtime
