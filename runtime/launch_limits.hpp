#pragma once

#include <string>

#include <kiln/op.hpp>

#include "base/result.hpp"
#include "runtime/driver/driver.hpp"

namespace kiln::runtime {

/// Whether the device can run a launch of this geometry at all, so that the error has numbers and
/// not just the driver's "invalid argument". `kernel` is how messages call it;
/// `static_shared_bytes` is what the compiled kernel takes on its own.
Status check_geometry(const std::string& kernel, const Geometry& geometry, int static_shared_bytes,
                      const DeviceInfo& device);

/// Whether the whole grid of a cooperative launch is resident at once: blocks per multiprocessor
/// (at this block and shared memory size) times multiprocessors. The error has both numbers.
Status check_cooperative(const Driver& driver, const std::string& kernel, CUfunction function,
                         const Geometry& geometry, const DeviceInfo& device);

/// Threads per block, blocks per cluster, blocks per grid.
std::uint64_t volume(const Dim3& dim) noexcept;

}  // namespace kiln::runtime
