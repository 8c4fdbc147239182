#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <kiln/op.hpp>

#include "base/result.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/driver/library_table.hpp"
#include "runtime/kernel_provider.hpp"
#include "runtime/plan.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// What to plan for. `problem` is a checked call's; its target is set anew for each candidate.
struct PlanRequest {
  const registry::BoundOp& bound;
  const Problem& problem;
  const DeviceInfo& device;
  Context context;  ///< Current on the calling thread, and of `device`.
};

/// Turns a checked call into a plan: targets that the device runs, best first; trait values for
/// each; the kernels from the cache or the compiler, loaded; geometry, checked against the device.
/// All kernels of a plan are of one target, so that they agree on traits and workspace. Not
/// thread-safe: the launcher's lock guards it.
class Planner {
 public:
  Planner(std::shared_ptr<const Driver> driver, KernelProvider& provider);

  Result<std::unique_ptr<const Plan>> make(const PlanRequest& request);

  /// Libraries that this planner was the first of the process to load.
  std::uint64_t libraries_loaded() const noexcept {
    return libraries_loaded_.load(std::memory_order_relaxed);
  }

 private:
  /// One target that would do, with the problem and traits as they are for it.
  struct Choice {
    Problem problem;
    Traits traits;
  };
  /// A loaded kernel.
  struct Resident {
    LoadedFunction* function = nullptr;
    int static_shared_bytes = 0;
    bool pdl_wait = false;
    std::size_t choice = 0;  ///< Index into the choices that it was asked with.
  };
  /// Op, kernel, context, and the trait values of each choice: all that a resident depends on.
  using ResidentKey = std::vector<std::uint64_t>;

  static Result<std::vector<Choice>> choices(const PlanRequest& request);
  Result<std::vector<PlanStep>> steps(const PlanRequest& request, std::span<const Choice> choices,
                                      std::size_t& chosen);
  Result<Resident> acquire(const PlanRequest& request, std::size_t kernel,
                           std::span<const Choice> choices);
  Result<Resident> load(const PlanRequest& request, std::size_t kernel,
                        std::span<const Choice> choices);
  Result<PlanStep> step(const PlanRequest& request, std::size_t kernel, const Choice& choice,
                        const Resident& resident);
  Status check_params(const PlanRequest& request, std::size_t kernel, CUfunction function) const;

  std::shared_ptr<const Driver> driver_;
  KernelProvider& provider_;
  std::map<ResidentKey, Resident> residents_;
  std::atomic<std::uint64_t> libraries_loaded_{
      0};  // Atomic since counters() reads without the lock.
};

}  // namespace kiln::runtime
