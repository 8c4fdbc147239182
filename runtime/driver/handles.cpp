#include "runtime/driver/handles.hpp"

#include <utility>

namespace kiln::runtime {

Result<PrimaryContext> PrimaryContext::retain(const std::shared_ptr<const Driver>& driver,
                                              int ordinal) {
  const Result<const DeviceInfo*> device = driver->device(ordinal);
  if (!device) {
    return tl::unexpected(device.error());
  }
  CUcontext context = nullptr;
  Status status = driver->check("cuDevicePrimaryCtxRetain", driver->api().cuDevicePrimaryCtxRetain(
                                                                &context, (*device)->handle));
  if (!status) {
    return tl::unexpected(std::move(status.error()));
  }
  PrimaryContext retained(driver, (*device)->handle);
  status = driver->check("cuCtxSetCurrent", driver->api().cuCtxSetCurrent(context));
  if (!status) {
    return tl::unexpected(std::move(status.error()));
  }
  return retained;
}

PrimaryContext::PrimaryContext(PrimaryContext&& other) noexcept
    : driver_(std::move(other.driver_)), device_(other.device_) {}

PrimaryContext::~PrimaryContext() {
  if (driver_ != nullptr) {
    driver_->api().cuDevicePrimaryCtxRelease(device_);
  }
}

Result<DeviceMemory> DeviceMemory::allocate(std::shared_ptr<const Driver> driver,
                                            std::size_t bytes) {
  CUdeviceptr address = 0;
  Status status = driver->check("cuMemAlloc", driver->api().cuMemAlloc(&address, bytes));
  if (!status) {
    return tl::unexpected(std::move(status.error()));
  }
  return DeviceMemory(std::move(driver), address, bytes);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : driver_(std::move(other.driver_)), address_(other.address_), bytes_(other.bytes_) {}

DeviceMemory::~DeviceMemory() {
  if (driver_ != nullptr) {
    driver_->api().cuMemFree(address_);
  }
}

Status DeviceMemory::upload(const void* from, std::size_t bytes) {
  return driver_->check("cuMemcpyHtoD", driver_->api().cuMemcpyHtoD(address_, from, bytes));
}

Status DeviceMemory::download(void* to, std::size_t bytes) const {
  return driver_->check("cuMemcpyDtoH", driver_->api().cuMemcpyDtoH(to, address_, bytes));
}

Status DeviceMemory::fill(unsigned char value) {
  return driver_->check("cuMemsetD8", driver_->api().cuMemsetD8(address_, value, bytes_));
}

Result<Stream> Stream::create(std::shared_ptr<const Driver> driver) {
  CUstream stream = nullptr;
  Status status = driver->check("cuStreamCreate",
                                driver->api().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (!status) {
    return tl::unexpected(std::move(status.error()));
  }
  return Stream(std::move(driver), stream);
}

Stream::Stream(Stream&& other) noexcept
    : driver_(std::move(other.driver_)), stream_(other.stream_) {}

Stream::~Stream() {
  if (driver_ != nullptr) {
    driver_->api().cuStreamDestroy(stream_);
  }
}

Status Stream::synchronize() const {
  return driver_->check("cuStreamSynchronize", driver_->api().cuStreamSynchronize(stream_));
}

}  // namespace kiln::runtime
