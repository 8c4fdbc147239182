#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "base/result.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/driver/library_table.hpp"
#include "runtime/kernel_launch.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// An op resolved for one set of shapes, one device and one context: functions, geometry and how to
/// pack parameters. Immutable, so any number of threads may launch it at once.
class Plan {
 public:
  /// Of LaunchOptions::workspace.
  static constexpr std::uintptr_t kWorkspaceAlignment = 256;

  Plan(std::shared_ptr<const Driver> driver, const registry::BoundOp& bound, Context context,
       std::vector<PlanStep> steps, std::size_t workspace_bytes);

  /// Packs parameters and makes one driver call per kernel: no allocation, lock or other driver
  /// call. `args` must have passed the op's check with the shapes of this plan.
  Status launch(std::span<const Arg> args, CUstream stream, const LaunchOptions& options) const;
  /// The same, and waits for each kernel, so that the error of one that fails names it. The stream
  /// must not be being captured.
  Status launch_and_wait(std::span<const Arg> args, CUstream stream,
                         const LaunchOptions& options) const;

  std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }
  std::span<const PlanStep> steps() const noexcept { return steps_; }

 private:
  template <bool kWaits>
  Status run(std::span<const Arg> args, CUstream stream, const LaunchOptions& options) const;
  CUresult launch_with_attributes(const KernelLaunch& kernel, CUlaunchConfig config, void** params,
                                  const LaunchOptions& options) const noexcept;
  Status wait_for(std::size_t step, CUstream stream) const;
  std::string name_of(std::size_t step) const;
  Status workspace_failure(const LaunchOptions& options) const;
  Status launch_failure(std::size_t step, CUresult result) const;

  // What a launch looks at comes first and lies together.
  decltype(DriverApi::cuLaunchKernelEx) launch_kernel_;
  std::vector<KernelLaunch> kernels_;  // One per step.
  std::size_t workspace_bytes_;
  bool constants_switch_;  // The op's.
  const registry::BoundOp& bound_;
  std::shared_ptr<const Driver> driver_;
  Context context_;
  std::vector<PlanStep> steps_;
};

/// Bytes that a parameter takes in a kernel's signature.
std::size_t param_bytes(const registry::BoundParam& param) noexcept;

}  // namespace kiln::runtime
