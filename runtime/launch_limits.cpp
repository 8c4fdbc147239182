#include "runtime/launch_limits.hpp"

#include <cstdint>

#include <fmt/format.h>

namespace kiln::runtime {
namespace {

// The same on every device that Kiln serves.
constexpr std::uint64_t kMaxThreads = 1024;
constexpr std::uint32_t kMaxBlockZ = 64;
constexpr std::uint64_t kMaxClusterBlocks = 16;  // Above 8 only where a device says so.
constexpr std::uint32_t kMaxGridX = 0x7FFFFFFF;
constexpr std::uint32_t kMaxGridYz = 65535;

std::string text(const Dim3& dim) {
  return fmt::format("({}, {}, {})", dim.x, dim.y, dim.z);
}

tl::unexpected<Failure> invalid(const std::string& kernel, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, kernel + ": " + what);
}

}  // namespace

std::uint64_t volume(const Dim3& dim) noexcept {
  return std::uint64_t{dim.x} * dim.y * dim.z;
}

Status check_geometry(const std::string& kernel, const Geometry& geometry, int static_shared_bytes,
                      const DeviceInfo& device) {
  const Dim3& grid = geometry.grid;
  if (grid.x > kMaxGridX || grid.y > kMaxGridYz || grid.z > kMaxGridYz) {
    return invalid(kernel, fmt::format("the grid {} is beyond the limit ({}, {}, {})", text(grid),
                                       kMaxGridX, kMaxGridYz, kMaxGridYz));
  }
  const std::uint64_t threads = volume(geometry.block);
  if (geometry.block.z > kMaxBlockZ) {
    return invalid(kernel, fmt::format("the block {} is beyond the limit of {} along z",
                                       text(geometry.block), kMaxBlockZ));
  }
  if (threads == 0 || threads > kMaxThreads) {
    return invalid(kernel, fmt::format("the block {} has {} threads; 1 to {} are possible",
                                       text(geometry.block), threads, kMaxThreads));
  }
  const Dim3& cluster = geometry.cluster;
  if (volume(cluster) > kMaxClusterBlocks) {
    return invalid(kernel, fmt::format("the cluster {} has {} blocks; at most {} are possible",
                                       text(cluster), volume(cluster), kMaxClusterBlocks));
  }
  if (volume(cluster) == 0 || grid.x % cluster.x != 0 || grid.y % cluster.y != 0 ||
      grid.z % cluster.z != 0) {
    return invalid(kernel, fmt::format("the grid {} is no multiple of the cluster {}", text(grid),
                                       text(cluster)));
  }
  const std::uint64_t shared = std::uint64_t{geometry.dynamic_shared_bytes} +
                               static_cast<std::uint64_t>(static_shared_bytes);
  if (shared > static_cast<std::uint64_t>(device.max_shared_bytes_per_block)) {
    return invalid(kernel,
                   fmt::format("needs {} bytes of shared memory per block ({} of them dynamic); "
                               "device {} ({}) has {}",
                               shared, geometry.dynamic_shared_bytes, device.ordinal, device.name,
                               device.max_shared_bytes_per_block));
  }
  return {};
}

Status check_cooperative(const Driver& driver, const std::string& kernel, CUfunction function,
                         const Geometry& geometry, const DeviceInfo& device) {
  int per_multiprocessor = 0;
  Status status =
      driver.check("cuOccupancyMaxActiveBlocksPerMultiprocessor",
                   driver.api().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                       &per_multiprocessor, function, static_cast<int>(volume(geometry.block)),
                       geometry.dynamic_shared_bytes));
  if (!status) {
    return status;
  }
  const std::uint64_t allowed = static_cast<std::uint64_t>(per_multiprocessor) *
                                static_cast<std::uint64_t>(device.multiprocessors);
  if (volume(geometry.grid) > allowed) {
    return invalid(kernel, fmt::format("a cooperative launch of {} blocks, and at most {} are "
                                       "resident at once on device {} ({}): {} on each of {} "
                                       "multiprocessors",
                                       volume(geometry.grid), allowed, device.ordinal, device.name,
                                       per_multiprocessor, device.multiprocessors));
  }
  return {};
}

}  // namespace kiln::runtime
