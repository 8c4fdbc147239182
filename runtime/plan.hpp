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
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// One kernel of a plan, resolved.
struct PlanStep {
  CUfunction function = nullptr;
  Geometry geometry;
  /// The kernel may be launched with the PDL attribute: its PDL trait is on, the device has PDL,
  /// and its code holds the wait.
  bool pdl = false;
  /// The parameters, in the signature's order. Beside each its value, where that does not change
  /// from call to call (dims and computed ones).
  struct Slot {
    registry::BoundParam param;
    std::uint64_t constant = 0;
  };
  std::vector<Slot> slots;
  Variant variant;
};

/// An op resolved for one set of shapes, one device and one context: functions, geometry and how to
/// pack parameters. Immutable, so any number of threads may launch it at once.
class Plan {
 public:
  /// More parameters than any kernel has use for; a kernel with more is refused when planned.
  static constexpr std::size_t kMaxParams = 64;
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
  Status wait_for(const PlanStep& step, CUstream stream) const;
  std::string name_of(const PlanStep& step) const;
  Status workspace_failure(const LaunchOptions& options) const;
  Status launch_failure(const PlanStep& step, CUresult result) const;

  std::shared_ptr<const Driver> driver_;
  decltype(DriverApi::cuLaunchKernelEx) launch_kernel_;
  const registry::BoundOp& bound_;
  Context context_;
  std::vector<PlanStep> steps_;
  std::size_t workspace_bytes_;
};

/// Bytes that a parameter takes in a kernel's signature.
std::size_t param_bytes(const registry::BoundParam& param) noexcept;

}  // namespace kiln::runtime
