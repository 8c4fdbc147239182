#include "runtime/launcher.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "runtime/pointer_check.hpp"
#include "trait_registry/check.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

// Drivers of this version and newer can load a library while a stream is captured.
constexpr int kLoadsDuringCapture = 12030;

/// Lets this thread load libraries while some stream is captured, and restores its mode.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverApi& api) : api_(api) {
    exchanged_ = api_.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
  }
  ~RelaxedCapture() {
    if (exchanged_) {
      api_.cuThreadExchangeStreamCaptureMode(&mode_);
    }
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const DriverApi& api_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged_ = false;
};

// Loading while a stream is captured would spoil the capture on an old driver.
Status check_capture(const Driver& driver, const std::string& op, CUstream stream) {
  if (driver.version() >= kLoadsDuringCapture) {
    return {};
  }
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver.api().cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
      status != CU_STREAM_CAPTURE_STATUS_NONE) {
    return fail(
        ErrorCode::kDriverError,
        fmt::format("{} is not loaded yet for these shapes and its stream is being captured; "
                    "a driver of version {} cannot load during a capture (12.3 and newer "
                    "can): launch it once before the capture",
                    op, driver.version_text()));
  }
  return {};
}

}  // namespace

Launcher::Launcher(LauncherOptions options, KernelProvider& provider)
    : options_(std::move(options)), provider_(provider) {}

Result<Launcher::Machine*> Launcher::machine() {
  std::call_once(loaded_once_, [this] {
    Result<std::shared_ptr<const Driver>> driver = Driver::load(options_.driver_path);
    if (!driver) {
      load_failure_ = std::move(driver.error());
      return;
    }
    std::vector<Target> targets;
    for (const DeviceInfo& device : (*driver)->devices()) {
      const std::vector<Target> list = registry::targets_for_device(device.capability);
      targets.push_back(list.empty() ? Target{device.capability.major, device.capability.minor}
                                     : list.front());
    }
    // An aggregate that cannot be moved, which make_unique cannot make before clang 16.
    // NOLINTNEXTLINE(modernize-make-unique)
    machine_storage_.reset(new Machine{*driver, std::move(targets), Planner(*driver, provider_)});
    machine_.store(machine_storage_.get(), std::memory_order_release);
  });
  if (load_failure_) {
    return tl::unexpected(*load_failure_);
  }
  return machine_storage_.get();
}

Result<std::shared_ptr<const Driver>> Launcher::driver() {
  const Result<Machine*> machine = this->machine();
  if (!machine) {
    return tl::unexpected(machine.error());
  }
  return (*machine)->driver;
}

std::uint64_t Launcher::libraries_loaded() const noexcept {
  const Machine* machine = machine_.load(std::memory_order_acquire);
  return machine != nullptr ? machine->planner.libraries_loaded() : 0;
}

bool Launcher::pdl_on(const DeviceInfo& device) const noexcept {
  return options_.pdl && device.capability.major >= 9;
}

// Tells a problem where it runs, as far as that is known before the call is checked.
void Launcher::set_place(Problem& problem, std::span<const Arg> args) const noexcept {
  const Machine* machine = machine_.load(std::memory_order_acquire);
  const auto tensor = std::find_if(args.begin(), args.end(),
                                   [](const Arg& arg) { return arg.kind() == Arg::Kind::kTensor; });
  if (machine == nullptr || tensor == args.end()) {
    return;
  }
  const auto ordinal = static_cast<std::size_t>(tensor->tensor().device.device_id);
  if (ordinal < machine->targets.size()) {
    problem.set_target(machine->targets[ordinal]);
    problem.set_pdl(pdl_on(machine->driver->devices()[ordinal]));
  }
}

Status Launcher::check_call(const registry::BoundOp& bound, std::span<const Arg> args,
                            Problem& problem, int& device) const {
  set_place(problem, args);
  return registry::check_call(bound, args, options_.check, problem, device);
}

Status Launcher::launch(const registry::BoundOp& bound, std::span<const Arg> args, CUstream stream,
                        const LaunchOptions& options) {
  Problem problem(bound.names);
  int device = -1;
  if (Status status = check_call(bound, args, problem, device); !status) {
    return status;
  }
  const Plan* plan = plans_.find({&bound, device, problem});
  if (plan == nullptr) [[unlikely]] {
    return launch_cold(bound, args, stream, options);
  }
  if (options_.check) [[unlikely]] {
    const Driver& driver = *machine_.load(std::memory_order_acquire)->driver;
    Status status = check_pointers(driver, bound, args, **driver.device(device));
    if (!status) {
      return status;
    }
  }
  return plan->launch(args, stream, options);
}

Status Launcher::launch_cold(const registry::BoundOp& bound, std::span<const Arg> args,
                             CUstream stream, const LaunchOptions& options) {
  const Result<Machine*> machine = this->machine();
  if (!machine) {
    return tl::unexpected(machine.error());
  }
  const Driver& driver = *(*machine)->driver;
  // Again, now that the problem can be told its target, which the op's contract may look at.
  Problem problem(bound.names);
  int ordinal = -1;
  if (Status status = check_call(bound, args, problem, ordinal); !status) {
    return status;
  }
  if (ordinal < 0) {
    return fail(ErrorCode::kInvalidArgument,
                bound.op.name + " was given no tensor, so there is no device to launch it on");
  }
  const Result<const DeviceInfo*> device = driver.device(ordinal);
  if (!device) {
    return fail(device.error().code, bound.op.name + ": " + device.error().message);
  }
  if (options_.check) {
    if (Status status = check_pointers(driver, bound, args, **device); !status) {
      return status;
    }
  }
  const PlanKey key{&bound, ordinal, problem};
  std::unique_ptr<const Plan> made;
  const Plan* plan = nullptr;
  {
    const std::lock_guard lock(planning_);
    plan = plans_.find(key);  // Another thread may have made it while this one waited.
    if (plan == nullptr) {
      Result<std::unique_ptr<const Plan>> fresh = make_plan(**machine, key, stream);
      if (!fresh) {
        return tl::unexpected(std::move(fresh.error()));
      }
      made = std::move(*fresh);
      plan = plans_.insert(key, made);
    }
  }
  return (plan != nullptr ? plan : made.get())->launch(args, stream, options);
}

Result<std::unique_ptr<const Plan>> Launcher::make_plan(Machine& machine, const PlanKey& key,
                                                        CUstream stream) {
  const Driver& driver = *machine.driver;
  const DeviceInfo& device = **driver.device(key.device);
  const RelaxedCapture relaxed(driver.api());
  const Result<Context> context = context_for(driver, *key.bound, device);
  if (!context) {
    return tl::unexpected(context.error());
  }
  if (Status status = check_capture(driver, key.bound->op.name, stream); !status) {
    return tl::unexpected(std::move(status.error()));
  }
  Result<std::unique_ptr<const Plan>> plan =
      machine.planner.make({*key.bound, key.problem, device, *context});
  if (plan) {
    contexts_.emplace(device.ordinal, *context);
  }
  return plan;
}

Result<Context> Launcher::context_for(const Driver& driver, const registry::BoundOp& bound,
                                      const DeviceInfo& device) {
  const DriverApi& api = driver.api();
  Context context;
  CUdevice current_device = 0;
  const auto failed = [&](const char* call, CUresult result) {
    return fail(ErrorCode::kDriverError, bound.op.name + ": " + driver.error_text(call, result));
  };
  CUresult result = api.cuCtxGetCurrent(&context.handle);
  if (result != CUDA_SUCCESS) {
    return failed("cuCtxGetCurrent", result);
  }
  if (context.handle == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: no CUDA context is current on this thread; make one of device {}, "
                            "where the tensors are, current first",
                            bound.op.name, device.ordinal));
  }
  result = api.cuCtxGetDevice(&current_device);
  if (result != CUDA_SUCCESS) {
    return failed("cuCtxGetDevice", result);
  }
  if (current_device != device.handle) {
    const auto devices = driver.devices();
    const auto current = std::find_if(devices.begin(), devices.end(), [&](const DeviceInfo& info) {
      return info.handle == current_device;
    });
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the tensors are on CUDA device {} and the current context is of "
                            "device {}; make a context of device {} current first",
                            bound.op.name, device.ordinal,
                            current != devices.end() ? current->ordinal : -1, device.ordinal));
  }
  result = api.cuCtxGetId(context.handle, &context.id);
  if (result != CUDA_SUCCESS) {
    return failed("cuCtxGetId", result);
  }
  const auto bound_context = contexts_.find(device.ordinal);
  if (bound_context != contexts_.end() && bound_context->second.id != context.id) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: this engine launches on device {} through the context that was "
                    "current at its first launch there ({}), and another one is current now "
                    "({}); use an engine for each context",
                    bound.op.name, device.ordinal,
                    static_cast<const void*>(bound_context->second.handle),
                    static_cast<const void*>(context.handle)));
  }
  return context;
}

Result<std::size_t> Launcher::workspace_bytes(const registry::BoundOp& bound,
                                              std::span<const Arg> args) {
  Problem problem(bound.names);
  int ordinal = -1;
  if (Status status = check_call(bound, args, problem, ordinal); !status) {
    return tl::unexpected(std::move(status.error()));
  }
  if (!bound.op.workspace) {
    return 0;
  }
  const Result<Machine*> machine = this->machine();
  if (!machine) {
    return tl::unexpected(machine.error());
  }
  const Result<const DeviceInfo*> device = (*machine)->driver->device(ordinal);
  if (!device) {
    return fail(device.error().code, bound.op.name + ": " + device.error().message);
  }
  std::size_t most = 0;
  problem.set_pdl(pdl_on(**device));
  for (const Target& target : registry::targets_for_device((*device)->capability)) {
    if (registry::serves(bound.op, target)) {
      problem.set_target(target);
      most = std::max(most, bound.op.workspace(problem, registry::choose_traits(bound, problem)));
    }
  }
  return most;
}

CanUse Launcher::can_use(const registry::BoundOp& bound, std::span<const Arg> args) {
  const Result<Machine*> machine = this->machine();
  Problem problem(bound.names);
  int ordinal = -1;
  if (Status status = check_call(bound, args, problem, ordinal); !status) {
    return {false, std::move(status.error().message)};
  }
  if (machine && ordinal >= 0) {
    const Result<const DeviceInfo*> device = (*machine)->driver->device(ordinal);
    if (!device) {
      return {false, device.error().message};
    }
    if (Status status = registry::serves(bound.op, problem.target()); !status) {
      return {false, std::move(status.error().message)};
    }
  }
  std::string reason = registry::policy_reason(bound, problem);
  return {reason.empty(), std::move(reason)};
}

}  // namespace kiln::runtime
