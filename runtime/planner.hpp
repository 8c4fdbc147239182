#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kiln/op.hpp>

#include "base/result.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/driver/library_table.hpp"
#include "runtime/kernel_provider.hpp"
#include "runtime/plan.hpp"
#include "runtime/trace.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// What happens to a kernel that is in no cache.
enum class Misses : std::uint8_t {
  kCompile,
  kLeave,   ///< kCompileForbidden, for the caller to see to.
  kRefuse,  ///< kNotLoaded, also for one that is in a cache: only what is loaded already is used.
};

/// What a look-up ahead of a load came upon.
struct LookedUp {
  bool asked = false;                   ///< Otherwise the load looks for itself.
  std::optional<cache::Entry> entry{};  ///< Without its keys; nothing where it is in no cache.
};

/// What to plan for. `problem` is a checked call's; its target is set anew for each candidate.
struct PlanRequest {
  const registry::BoundOp& bound;
  const Problem& problem;
  const DeviceInfo& device;
  Context context;  ///< Current on the calling thread, and of `device`.
  Misses misses = Misses::kCompile;
};

/// Turns a checked call into a plan: targets that the device runs, best first; trait values for
/// each; the kernels from the cache or the compiler, loaded; geometry, checked against the device.
/// All kernels of a plan are of one target, so that they agree on traits and workspace. All members
/// may be called from any thread; two that plan the same at the same time both get a plan.
class Planner {
 public:
  Planner(std::shared_ptr<const Driver> driver, KernelProvider& provider, Trace& trace);
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;
  ~Planner();

  Result<std::unique_ptr<const Plan>> make(const PlanRequest& request);

  /// The kernels that a plan would need, for the first target that they can be found or compiled
  /// for; compiles, and loads nothing. The request's context does not count.
  Status fetch(const PlanRequest& request);

  /// What fetch() would have to compile, each for the first target.
  std::vector<Variant> missing(const PlanRequest& request);

  /// Finds or compiles one kernel of the op and loads it into the context. `ahead`: what look_up()
  /// said of it.
  Status load(const registry::BoundOp& bound, const Variant& variant, const Context& context,
              Misses misses, const LookedUp& ahead = {});
  /// Reads a kernel that is in a cache and not loaded yet. No driver call: for any thread.
  LookedUp look_up(const Variant& variant, const Context& context);

  /// See LibraryTable::unload. What was planned before must not be launched any more.
  Result<std::size_t> unload();

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
  };
  /// A loaded kernel and which of the choices it is for.
  struct Acquired {
    Resident resident;
    std::size_t choice = 0;
  };
  /// Op, kernel, context, target and trait values: all that a resident depends on.
  using ResidentKey = std::vector<std::uint64_t>;

  static Result<std::vector<Choice>> choices(const PlanRequest& request);
  Result<std::vector<PlanStep>> steps(const PlanRequest& request, std::span<const Choice> choices,
                                      std::size_t& chosen);
  static std::vector<Variant> variants_of(const Op& op, std::size_t kernel,
                                          std::span<const Choice> choices);
  /// Calls `visit` with the variants of each kernel that the call launches, one per choice.
  template <class Visit>
  static Status each_kernel(const PlanRequest& request, Visit&& visit);
  /// The first of some variants of one kernel that is loaded already or can be.
  Result<Acquired> acquire(const registry::BoundOp& bound, std::span<const Variant> variants,
                           const Context& context, Misses misses, const LookedUp& ahead = {});
  Result<Acquired> load(std::span<const Variant> variants, const Context& context, Misses misses,
                        const LookedUp& ahead);
  tl::expected<Resident, LoadFailure> load(const cache::Entry& entry, const Context& context);
  Result<Obtained> obtain(std::span<const Candidate> candidates, const Accept& accept,
                          Misses misses, bool asked_before);
  std::optional<Acquired> resident_of(std::span<const Variant> variants, const Context& context);
  Result<PlanStep> step(const PlanRequest& request, std::size_t kernel, const Choice& choice,
                        const Resident& resident);
  Status check_params(const registry::BoundOp& bound, std::size_t kernel,
                      CUfunction function) const;
  Status opt_in_to_shared(const Resident& resident, std::uint32_t dynamic_bytes,
                          const DeviceInfo& device) const;

  std::shared_ptr<const Driver> driver_;
  KernelProvider& provider_;
  Trace& trace_;
  std::mutex mutex_;
  std::map<ResidentKey, Resident> residents_;  // Guarded by mutex_.
  std::atomic<std::uint64_t> libraries_loaded_{
      0};  // Atomic since counters() reads without the lock.
};

}  // namespace kiln::runtime
