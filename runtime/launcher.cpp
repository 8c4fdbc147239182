#include "runtime/launcher.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "runtime/call_text.hpp"
#include "runtime/driver/relaxed_capture.hpp"
#include "runtime/pointer_check.hpp"
#include "trait_registry/check.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

// Drivers of this version and newer can load a library while a stream is captured.
constexpr int kLoadsDuringCapture = 12030;

// Spoils no capture, unlike most other calls. One of a blocking stream shows at the legacy default
// stream, which it would spoil, as a failure.
bool is_captured(const Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver.api().cuStreamIsCapturing(stream, &status);
  return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
         (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

bool loads_during_capture(const Driver& driver, CaptureMisses misses) {
  return driver.version() >= kLoadsDuringCapture && misses == CaptureMisses::kLoad;
}

constexpr const char* kWarmUp = "warm it up before the capture, by Engine::warmup or a launch";

tl::unexpected<Failure> not_loaded(const Driver& driver, const std::string& op,
                                   const std::string& kernel) {
  const std::string why =
      driver.version() >= kLoadsDuringCapture
          ? std::string("EngineOptions::capture_misses (KILN_CAPTURE_MISSES) says not to load then")
          : fmt::format("a driver of version {} cannot load then (12.3 and newer can)",
                        driver.version_text());
  return fail(ErrorCode::kNotLoaded,
              fmt::format("{}: {} is not loaded and its stream is being captured; {}: {}", op,
                          kernel, why, kWarmUp));
}

tl::unexpected<Failure> captured(const std::string& what) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("Engine::unload: {} is being captured, and a kernel in a graph must stay "
                          "loaded; end the capture first",
                          what));
}

tl::unexpected<Failure> no_tensor(const registry::BoundOp& bound) {
  return fail(ErrorCode::kInvalidArgument,
              bound.op.name + " was given no tensor, so there is no device to launch it on");
}

// What a call on behalf of `op` failed with.
tl::unexpected<Failure> call_failure(const Driver& driver, const std::string& op, const char* call,
                                     CUresult result) {
  return fail(ErrorCode::kDriverError, op + ": " + driver.error_text(call, result));
}

// The device of the current context; a failure where there is none.
Result<const DeviceInfo*> current_device(const Driver& driver, const std::string& op) {
  CUdevice handle = 0;
  const CUresult result = driver.api().cuCtxGetDevice(&handle);
  if (result == CUDA_ERROR_INVALID_CONTEXT) {
    return fail(ErrorCode::kInvalidArgument,
                op + ": no CUDA context is current on this thread; make one current first");
  }
  if (result != CUDA_SUCCESS) {
    return call_failure(driver, op, "cuCtxGetDevice", result);
  }
  for (const DeviceInfo& device : driver.devices()) {
    if (device.handle == handle) {
      return &device;
    }
  }
  return fail(ErrorCode::kInternal,
              op + ": the current context's device is not among the driver's");
}

// The current context, which must be of the device.
Result<Context> current_context(const Driver& driver, const std::string& op,
                                const DeviceInfo& device) {
  const DriverApi& api = driver.api();
  Context context;
  CUresult result = api.cuCtxGetCurrent(&context.handle);
  if (result != CUDA_SUCCESS) {
    return call_failure(driver, op, "cuCtxGetCurrent", result);
  }
  if (context.handle == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: no CUDA context is current on this thread; make one of device {}, "
                            "where the tensors are, current first",
                            op, device.ordinal));
  }
  const Result<const DeviceInfo*> current = current_device(driver, op);
  if (!current) {
    return tl::unexpected(current.error());
  }
  if (*current != &device) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the tensors are on CUDA device {} and the current context is of "
                            "device {}; make a context of device {} current first",
                            op, device.ordinal, (*current)->ordinal, device.ordinal));
  }
  result = api.cuCtxGetId(context.handle, &context.id);
  if (result != CUDA_SUCCESS) {
    return call_failure(driver, op, "cuCtxGetId", result);
  }
  return context;
}

}  // namespace

Launcher::Launcher(LauncherOptions options, KernelProvider& provider, const Logger& logger,
                   Trace& trace)
    : options_(std::move(options)), provider_(provider), logger_(logger), trace_(trace) {}

Launcher::~Launcher() {
  const std::lock_guard lock(calls_->mutex);
  for (Call* const call : calls_->held) {
    call->forget_plan();
    call->launcher = nullptr;
  }
}

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
    machine_storage_.reset(
        new Machine{*driver, std::move(targets), Planner(*driver, provider_, trace_)});
    machine_.store(machine_storage_.get(), std::memory_order_release);
  });
  if (load_failure_) {
    return tl::unexpected(*load_failure_);
  }
  if (Status status = machine_storage_->driver->check_process(); !status) {
    return tl::unexpected(std::move(status.error()));
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

[[gnu::hot]] Status Launcher::launch(const registry::BoundOp& bound, std::span<const Arg> args,
                                     CUstream stream, const LaunchOptions& options) {
  if (const Plan* const plan = seen_.find(bound, args)) [[likely]] {
    return plan->launch(args, stream, options);
  }
  return launch_unseen(bound, args, stream, options);
}

void Launcher::remember(const registry::BoundOp& bound, std::span<const Arg> args,
                        const Plan* plan) {
  if (options_.check || seen_.full()) {
    return;
  }
  // There is a driver now, if there was none when the call was checked.
  Problem problem(bound.names);
  set_place(problem, args);
  int device = -1;
  registry::Recheck recheck;
  if (registry::check_call(bound, args, false, problem, device, &recheck)) {
    seen_.insert(bound, args, std::move(recheck), plan);
  }
}

Status Launcher::launch_unseen(const registry::BoundOp& bound, std::span<const Arg> args,
                               CUstream stream, const LaunchOptions& options) {
  Problem problem(bound.names);
  int device = -1;
  if (Status status = check_call(bound, args, problem, device); !status) {
    return status;
  }
  const Plan* plan = plans_.find({&bound, device, problem});
  if (plan == nullptr) {
    return launch_cold(bound, args, stream, options);
  }
  remember(bound, args, plan);
  if (options_.check) {
    const Driver& driver = *machine_.load(std::memory_order_acquire)->driver;
    const DeviceInfo& info = **driver.device(device);
    Status status = check_pointers(driver, bound, args, info);
    return status ? launch_watched(bound, *plan, info, args, stream, options) : status;
  }
  return plan->launch(args, stream, options);
}

Status Launcher::launch_watched(const registry::BoundOp& bound, const Plan& plan,
                                const DeviceInfo& device, std::span<const Arg> args,
                                CUstream stream, const LaunchOptions& options) const {
  logger_.info("launch " + call_text(bound, args, stream, options));
  const Driver& driver = *machine_.load(std::memory_order_acquire)->driver;
  Status status =
      check_workspace(driver, bound, args, options.workspace,
                      std::min(plan.workspace_bytes(), options.workspace_bytes), device);
  if (!status) {
    return status;
  }
  return is_captured(driver, stream) ? plan.launch(args, stream, options)
                                     : plan.launch_and_wait(args, stream, options);
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
    return no_tensor(bound);
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
  Result<std::unique_ptr<const Plan>> made = make_plan(**machine, key, stream);
  if (!made) {
    return tl::unexpected(std::move(made.error()));
  }
  if (options_.used) {
    tell_used(**made);
  }
  const Plan* const kept = plans_.insert(key, *made);
  if (kept != nullptr) {
    remember(bound, args, kept);
  }
  const Plan& plan = kept != nullptr ? *kept : **made;
  return options_.check ? launch_watched(bound, plan, **device, args, stream, options)
                        : plan.launch(args, stream, options);
}

// What is loaded already may be launched whatever the setting says, so that is tried first.
Result<std::unique_ptr<const Plan>> Launcher::make_plan(Machine& machine, const PlanKey& key,
                                                        CUstream stream) {
  const Driver& driver = *machine.driver;
  if (!is_captured(driver, stream)) {
    return make_plan(machine, key, Misses::kCompile);
  }
  const std::string& op = key.bound->op.name;
  Result<std::unique_ptr<const Plan>> plan = make_plan(machine, key, Misses::kRefuse);
  if (plan || plan.error().code != ErrorCode::kNotLoaded) {
    return plan;
  }
  if (!loads_during_capture(driver, options_.capture_misses)) {
    return not_loaded(driver, op, plan.error().message);
  }
  plan = make_plan(machine, key, Misses::kCompile);
  if (plan) {
    std::string kernels;
    for (const PlanStep& step : (*plan)->steps()) {
      kernels += (kernels.empty() ? "" : ", ") + to_string(step.variant);
    }
    logger_.warn_once("captured " + kernels,
                      fmt::format("{}: {} was loaded while its stream was being captured, which "
                                  "holds the capture up: {}",
                                  op, kernels, kWarmUp));
  }
  return plan;
}

void Launcher::tell_used(const Plan& plan) const {
  std::vector<Variant> variants;
  for (const PlanStep& step : plan.steps()) {
    variants.push_back(step.variant);
  }
  options_.used(variants);
}

Result<std::unique_ptr<const Plan>> Launcher::make_plan(Machine& machine, const PlanKey& key,
                                                        Misses misses) {
  const Driver& driver = *machine.driver;
  const DeviceInfo& device = **driver.device(key.device);
  const std::string& op = key.bound->op.name;
  const RelaxedCapture relaxed(driver.api());
  const Result<Context> context = current_context(driver, op, device);
  if (!context) {
    return tl::unexpected(context.error());
  }
  if (Status status = check_bound(op, device, *context); !status) {
    return tl::unexpected(std::move(status.error()));
  }
  Result<std::unique_ptr<const Plan>> plan =
      machine.planner.make({*key.bound, key.problem, device, *context, misses});
  if (plan) {
    if (Status status = bind(op, device, *context); !status) {
      return tl::unexpected(std::move(status.error()));
    }
  }
  return plan;
}

Result<std::shared_ptr<const Launcher::Call>> Launcher::plan(const registry::BoundOp& bound,
                                                             std::span<const Arg> args) {
  const Result<CallShapes> shapes = this->shapes(bound, args);
  if (!shapes) {
    return tl::unexpected(shapes.error());
  }
  const PlanKey key{&bound, shapes->device->ordinal, shapes->problem};
  const Plan* plan = plans_.find(key);
  std::unique_ptr<const Plan> made_now;
  if (plan != nullptr) {
    // It is of the context that this engine launches through, which the caller's may not be.
    const Result<Context> context =
        current_context(*(*machine())->driver, bound.op.name, *shapes->device);
    if (!context) {
      return tl::unexpected(context.error());
    }
    if (Status status = check_bound(bound.op.name, *shapes->device, *context); !status) {
      return tl::unexpected(std::move(status.error()));
    }
  } else {
    Result<std::unique_ptr<const Plan>> made = make_plan(**machine(), key, Misses::kCompile);
    if (!made) {
      return tl::unexpected(std::move(made.error()));
    }
    if (options_.used) {
      tell_used(**made);
    }
    plan = plans_.insert(key, *made);
    made_now = std::move(*made);
  }
  auto call = std::make_unique<Call>(Call{plan, !options_.check, bound.op.name, this, &bound,
                                          shapes->device, shapes->problem, nullptr});
  if (plan == nullptr) {
    call->own = std::move(made_now);
    call->plan = call->own.get();
  }
  return hand_out(std::move(call));
}

std::shared_ptr<const Launcher::Call> Launcher::hand_out(std::unique_ptr<Call> call) {
  {
    const std::lock_guard lock(calls_->mutex);
    calls_->held.insert(call.get());
  }
  return {call.release(), [calls = calls_](Call* gone) {
            {
              const std::lock_guard lock(calls->mutex);
              calls->held.erase(gone);
            }
            delete gone;
          }};
}

void Launcher::Call::forget_plan() {
  plan = nullptr;
  plain = false;
  own.reset();
}

Status Launcher::Call::launch_unusual(std::span<const Arg> args, CUstream stream,
                                      const LaunchOptions& options) const {
  if (launcher == nullptr) {
    return fail(ErrorCode::kNotLoaded, op + ": this plan's engine was destroyed; keep it until its "
                                            "plans were launched for the last time");
  }
  if (plan == nullptr) {
    return fail(ErrorCode::kNotLoaded,
                op + ": Engine::unload has unloaded this plan's kernels; make the plan again");
  }
  Status status = launcher->check_planned(*this, args);
  return status ? launcher->launch_watched(*bound, *plan, *device, args, stream, options) : status;
}

Status Launcher::check_planned(const Call& call, std::span<const Arg> args) const {
  Problem problem(call.bound->names);
  int ordinal = -1;
  if (Status status = check_call(*call.bound, args, problem, ordinal); !status) {
    return status;
  }
  if (!same_plan({call.bound, ordinal, problem},
                 {call.bound, call.device->ordinal, call.problem})) {
    return fail(ErrorCode::kInvalidArgument,
                call.bound->op.name +
                    ": the plan was made for other shapes, dtypes or another device than the "
                    "arguments have; make a plan for these");
  }
  return check_pointers(*machine_.load(std::memory_order_acquire)->driver, *call.bound, args,
                        *call.device);
}

Result<CallShapes> Launcher::shapes(const registry::BoundOp& bound, std::span<const Arg> args) {
  const Result<Machine*> machine = this->machine();
  if (!machine) {
    return tl::unexpected(machine.error());
  }
  Problem problem(bound.names);
  set_place(problem, args);
  int ordinal = -1;
  if (Status status = registry::check_shapes(bound, args, problem, ordinal); !status) {
    return tl::unexpected(std::move(status.error()));
  }
  if (ordinal < 0) {
    return no_tensor(bound);
  }
  const Result<const DeviceInfo*> device = (*machine)->driver->device(ordinal);
  if (!device) {
    return fail(device.error().code, bound.op.name + ": " + device.error().message);
  }
  return CallShapes{&bound, problem, *device};
}

Status Launcher::fetch(const CallShapes& call) {
  return (*machine())->planner.fetch({*call.bound, call.problem, *call.device, {}, {}});
}

std::vector<Variant> Launcher::missing(const CallShapes& call) {
  return (*machine())->planner.missing({*call.bound, call.problem, *call.device, {}, {}});
}

Status Launcher::prepare(const CallShapes& call, Misses misses) {
  const PlanKey key{call.bound, call.device->ordinal, call.problem};
  if (plans_.find(key) != nullptr) {
    const Result<Context> context =
        current_context(*(*machine())->driver, call.bound->op.name, *call.device);
    return context ? check_bound(call.bound->op.name, *call.device, *context)
                   : tl::unexpected(context.error());
  }
  Result<std::unique_ptr<const Plan>> made = make_plan(**machine(), key, misses);
  if (!made) {
    return tl::unexpected(std::move(made.error()));
  }
  // Where uses are recorded the first launch must be noticed; it then plans again, from what is
  // loaded already.
  if (!options_.used) {
    plans_.insert(key, *made);
  }
  return {};
}

std::function<LookedUp(const Variant&)> Launcher::look_up() {
  const Result<Machine*> machine = this->machine();
  if (!machine) {
    return {};
  }
  const DriverApi& api = (*machine)->driver->api();
  Context context;
  if (api.cuCtxGetCurrent(&context.handle) != CUDA_SUCCESS || context.handle == nullptr ||
      api.cuCtxGetId(context.handle, &context.id) != CUDA_SUCCESS) {
    return {};
  }
  return [planner = &(*machine)->planner, context](const Variant& variant) {
    return planner->look_up(variant, context);
  };
}

Status Launcher::prepare(const registry::BoundOp& bound, const Variant& variant, Misses misses,
                         const LookedUp& ahead) {
  const Result<Machine*> machine = this->machine();
  if (!machine) {
    return tl::unexpected(machine.error());
  }
  const Driver& driver = *(*machine)->driver;
  const RelaxedCapture relaxed(driver.api());
  const Result<const DeviceInfo*> device = current_device(driver, bound.op.name);
  if (!device) {
    return tl::unexpected(device.error());
  }
  const Result<Context> context = current_context(driver, bound.op.name, **device);
  if (!context) {
    return tl::unexpected(context.error());
  }
  if (Status status = check_bound(bound.op.name, **device, *context); !status) {
    return status;
  }
  if (Status status = (*machine)->planner.load(bound, variant, *context, misses, ahead); !status) {
    return status;
  }
  return bind(bound.op.name, **device, *context);
}

Result<std::vector<Target>> Launcher::current_targets() {
  const Result<Machine*> machine = this->machine();
  if (!machine) {
    return tl::unexpected(machine.error());
  }
  const Result<const DeviceInfo*> device = current_device(*(*machine)->driver, "warm-up");
  if (!device) {
    return tl::unexpected(device.error());
  }
  return registry::targets_for_device((*device)->capability);
}

Result<std::size_t> Launcher::unload(std::span<const StreamHandle> streams) {
  if (machine_.load(std::memory_order_acquire) == nullptr) {
    return 0;  // Without a driver nothing was loaded.
  }
  const Result<Machine*> machine = this->machine();
  if (!machine) {
    return tl::unexpected(machine.error());
  }
  const Driver& driver = *(*machine)->driver;
  if (is_captured(driver, nullptr)) {
    return captured("a stream of the current context");
  }
  for (const StreamHandle stream : streams) {
    if (is_captured(driver, static_cast<CUstream>(stream))) {
      return captured(fmt::format("stream {}", stream));
    }
  }
  {
    const std::lock_guard lock(calls_->mutex);
    for (Call* const call : calls_->held) {
      call->forget_plan();
    }
  }
  const std::lock_guard lock(mutex_);
  seen_.clear();
  plans_.clear();
  contexts_.clear();
  return (*machine)->planner.unload();
}

Status Launcher::check_bound(const std::string& op, const DeviceInfo& device,
                             const Context& context) {
  const std::lock_guard lock(mutex_);
  const auto bound = contexts_.find(device.ordinal);
  if (bound == contexts_.end() || bound->second.id == context.id) {
    return {};
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: this engine launches on device {} through the context that was "
                          "current at its first launch there ({}), and another one is current now "
                          "({}); use an engine for each context",
                          op, device.ordinal, static_cast<const void*>(bound->second.handle),
                          static_cast<const void*>(context.handle)));
}

// Of threads that plan for a device's first time in two contexts, one comes first here.
Status Launcher::bind(const std::string& op, const DeviceInfo& device, const Context& context) {
  {
    const std::lock_guard lock(mutex_);
    contexts_.emplace(device.ordinal, context);
  }
  return check_bound(op, device, context);
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
