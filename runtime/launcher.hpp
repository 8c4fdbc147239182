#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "base/logger.hpp"
#include "base/result.hpp"
#include "runtime/call_cache.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/driver/library_table.hpp"
#include "runtime/kernel_provider.hpp"
#include "runtime/plan_cache.hpp"
#include "runtime/planner.hpp"
#include "runtime/trace.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

struct LauncherOptions {
  std::string driver_path;  ///< Empty: libcuda.so.1 along the loader's path.
  bool pdl = true;
  bool check = false;  ///< The checking mode, see EngineOptions::check.
  CaptureMisses capture_misses = CaptureMisses::kLoad;
  /// Told of the kernels of each plan when it is first launched. May be called from any thread.
  std::function<void(std::span<const Variant>)> used;
};

/// A call without its pointers, checked against its op's contract.
struct CallShapes {
  const registry::BoundOp* bound;
  Problem problem;
  const DeviceInfo* device;
};

/// Launches calls. A warm call is checked, finds its plan without a lock, and makes one driver call
/// per kernel; it allocates nothing. A cold one plans first, compiling and loading if it must;
/// calls that plan at the same time do not wait for each other. All members may be called from any
/// thread.
///
/// A launcher serves one context of each device: the one that is current when a plan for the device
/// is first made. Telling contexts apart at each launch would cost a driver call.
class Launcher {
 public:
  Launcher(LauncherOptions options, KernelProvider& provider, const Logger& logger, Trace& trace);
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  /// No plan that somebody holds may be being launched.
  ~Launcher();

  Status launch(const registry::BoundOp& bound, std::span<const Arg> args, CUstream stream,
                const LaunchOptions& options);

  /// A plan to be launched without looking it up. Who holds one may outlive the launcher.
  struct Call {
    const Plan* plan;  ///< Null once its kernels were unloaded, or the launcher is gone.
    bool plain;        ///< There is a plan and no checking mode.
    std::string op;
    const Launcher* launcher;  ///< Null once it is gone; what follows is then no more.
    const registry::BoundOp* bound;
    const DeviceInfo* device;
    Problem problem;
    std::unique_ptr<const Plan> own;  ///< What `plan` is, where plans_ had no room for it.

    Status launch(std::span<const Arg> args, CUstream stream, const LaunchOptions& options) const {
      return plain ? plan->launch(args, stream, options) : launch_unusual(args, stream, options);
    }

   private:
    friend class Launcher;
    Status launch_unusual(std::span<const Arg> args, CUstream stream,
                          const LaunchOptions& options) const;
    void forget_plan();
  };
  Result<std::shared_ptr<const Call>> plan(const registry::BoundOp& bound,
                                           std::span<const Arg> args);

  /// Looks at everything but the pointers.
  Result<CallShapes> shapes(const registry::BoundOp& bound, std::span<const Arg> args);
  /// Finds or compiles what the call needs, and loads nothing. Needs no current context.
  Status fetch(const CallShapes& call);
  /// The kernels that fetch() would have to compile, each for the first of the device's targets.
  std::vector<Variant> missing(const CallShapes& call);
  /// Makes the call as good as launched before, in the current context.
  Status prepare(const CallShapes& call, Misses misses);
  /// Loads one kernel into the current context. `ahead`: what look_up() said of it.
  Status prepare(const registry::BoundOp& bound, const Variant& variant, Misses misses,
                 const LookedUp& ahead = {});
  /// What Planner::look_up says of a variant, for the context that is current now; may be asked on
  /// any thread. Empty where no kernel can be loaded here.
  std::function<LookedUp(const Variant&)> look_up();
  /// The targets that the current context's device runs, best first.
  Result<std::vector<Target>> current_targets();

  /// Enough for any target that the call's kernels may be found for.
  Result<std::size_t> workspace_bytes(const registry::BoundOp& bound, std::span<const Arg> args);

  /// See Engine::unload.
  Result<std::size_t> unload(std::span<const StreamHandle> streams);

  /// Contract, policy, and, where a driver is there to say, the device.
  CanUse can_use(const registry::BoundOp& bound, std::span<const Arg> args);

  /// Loads libcuda at the first call; later calls give the same answer.
  Result<std::shared_ptr<const Driver>> driver();

  std::uint64_t libraries_loaded() const noexcept;

 private:
  /// What depends on the driver. Made once, then fixed but for the planner.
  struct Machine {
    std::shared_ptr<const Driver> driver;
    std::vector<Target> targets;  ///< Per device: the first of its list.
    Planner planner;
  };

  Result<Machine*> machine();
  bool pdl_on(const DeviceInfo& device) const noexcept;
  void set_place(Problem& problem, std::span<const Arg> args) const noexcept;
  Status check_call(const registry::BoundOp& bound, std::span<const Arg> args, Problem& problem,
                    int& device) const;
  /// Of the checking mode: whether the arguments are what the call was planned for.
  Status check_planned(const Call& call, std::span<const Arg> args) const;
  /// Of the checking mode: with a log line before it and a wait after each kernel.
  Status launch_watched(const registry::BoundOp& bound, const Plan& plan, const DeviceInfo& device,
                        std::span<const Arg> args, CUstream stream,
                        const LaunchOptions& options) const;
  /// A call that is like none before, or does not keep its op's contract.
  Status launch_unseen(const registry::BoundOp& bound, std::span<const Arg> args, CUstream stream,
                       const LaunchOptions& options);
  /// Has calls like this one, which passed its check, found by launch() from now on.
  void remember(const registry::BoundOp& bound, std::span<const Arg> args, const Plan* plan);
  Status launch_cold(const registry::BoundOp& bound, std::span<const Arg> args, CUstream stream,
                     const LaunchOptions& options);
  Result<std::unique_ptr<const Plan>> make_plan(Machine& machine, const PlanKey& key,
                                                Misses misses);
  /// A plan for a launch on this stream, which may be being captured.
  Result<std::unique_ptr<const Plan>> make_plan(Machine& machine, const PlanKey& key,
                                                CUstream stream);
  void tell_used(const Plan& plan) const;
  std::shared_ptr<const Call> hand_out(std::unique_ptr<Call> call);
  /// A failure when another context is the one of the device.
  Status check_bound(const std::string& op, const DeviceInfo& device, const Context& context);
  /// From now on the one context of the device; a failure when another one is that.
  Status bind(const std::string& op, const DeviceInfo& device, const Context& context);

  const LauncherOptions options_;
  KernelProvider& provider_;
  const Logger logger_;
  Trace& trace_;
  PlanCache plans_;
  CallCache seen_;  // Empty in the checking mode.

  std::once_flag loaded_once_;
  std::optional<Failure> load_failure_;
  std::unique_ptr<Machine> machine_storage_;
  std::atomic<Machine*> machine_{nullptr};  // Set once; null until then or when there is no driver.

  std::mutex mutex_;                 // Guards what follows.
  std::map<int, Context> contexts_;  // By device ordinal.

  /// The calls that somebody holds, to be told when their plans go.
  struct Calls {
    std::mutex mutex;  // Guards the rest.
    std::set<Call*> held;
  };
  const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();  // Each call's, too.
};

}  // namespace kiln::runtime
