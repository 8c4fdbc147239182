#pragma once

#include <cstddef>
#include <span>

#include <kiln/tensor.hpp>

#include "base/result.hpp"
#include "runtime/driver/driver.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// Asks the driver whether the first and the last byte of each tensor are memory of the device that
/// the tensor declares. For the checking mode: several driver calls per tensor.
Status check_pointers(const Driver& driver, const registry::BoundOp& bound,
                      std::span<const Arg> args, const DeviceInfo& device);

/// The same of a workspace of so many bytes, which also must not overlap a tensor. None where
/// `bytes` is 0.
Status check_workspace(const Driver& driver, const registry::BoundOp& bound,
                       std::span<const Arg> args, const void* workspace, std::size_t bytes,
                       const DeviceInfo& device);

}  // namespace kiln::runtime
