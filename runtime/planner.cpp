#include "runtime/planner.hpp"

#include <bit>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "runtime/launch_limits.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

// What a kernel may use without opting in: static and dynamic shared memory together.
constexpr std::uint32_t kDefaultSharedBytes = 48 * 1024;
// Larger clusters are not portable between devices and must be opted in to.
constexpr std::uint64_t kPortableCluster = 8;

std::string kernel_name(const Op& op, std::size_t kernel) {
  return fmt::format("{}, kernel {}", op.name, op.kernels[kernel].name);
}

// The part of a parameter's value that follows from the problem.
std::int64_t constant_of(const registry::BoundParam& bound, const Param& param,
                         const Problem& problem) {
  switch (bound.source) {
    case Param::Source::kDim:
      return problem.dim_at(static_cast<std::size_t>(bound.index));
    case Param::Source::kComputed:
      return param.compute(problem);
    default:
      return 0;
  }
}

bool launches_nothing(const Geometry& geometry) {
  return volume(geometry.grid) == 0;
}

/// Those of some variants that are kernels, and which of the variants each is.
struct Candidates {
  std::vector<Candidate> list;
  std::vector<std::size_t> choice_of;
};

Result<Candidates> candidates_of(std::span<const Variant> variants) {
  Candidates candidates;
  std::optional<Failure> unusable;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    Result<Candidate> candidate = Candidate::of(variants[i]);
    if (candidate) {
      candidates.list.push_back(std::move(*candidate));
      candidates.choice_of.push_back(i);
    } else if (!unusable) {
      unusable = std::move(candidate.error());  // A combination that this target does not have.
    }
  }
  if (candidates.list.empty()) {
    return tl::unexpected(std::move(*unusable));
  }
  return candidates;
}

std::vector<std::uint64_t> resident_key(const Variant& variant, const Context& context) {
  std::vector<std::uint64_t> key{
      std::bit_cast<std::uint64_t>(variant.op), variant.kernel, context.id,
      static_cast<std::uint64_t>(variant.target.compute_capability()) << 8 |
          static_cast<std::uint8_t>(variant.target.suffix)};
  for (std::size_t i = 0; i < variant.op->traits.size(); ++i) {
    key.push_back(static_cast<std::uint64_t>(variant.traits.at(i)));
  }
  return key;
}

// Whether another target may still do where this one did not.
bool tries_next_target(ErrorCode code) {
  return code == ErrorCode::kUnsupportedTarget || code == ErrorCode::kCompilerUnavailable ||
         code == ErrorCode::kCompileForbidden;
}

}  // namespace

Planner::Planner(std::shared_ptr<const Driver> driver, KernelProvider& provider, Trace& trace)
    : driver_(std::move(driver)), provider_(provider), trace_(trace) {}

Planner::~Planner() {
  LibraryTable::of_process().leave(this);
}

Result<std::size_t> Planner::unload() {
  {
    const std::lock_guard lock(mutex_);
    residents_.clear();
  }
  return LibraryTable::of_process().unload(*driver_, this);
}

Result<std::vector<Planner::Choice>> Planner::choices(const PlanRequest& request) {
  const DeviceInfo& device = request.device;
  std::vector<Choice> choices;
  for (const Target& target : registry::targets_for_device(device.capability)) {
    if (registry::serves(request.bound.op, target)) {
      Problem problem = request.problem;
      problem.set_target(target);
      const Traits traits = registry::choose_traits(request.bound, problem);
      choices.push_back({problem, traits});
    }
  }
  if (choices.empty()) {
    const int needed = request.bound.op.min_compute_capability;
    return fail(
        ErrorCode::kUnsupportedTarget,
        fmt::format("{} cannot run on device {} ({}, compute capability {}.{}): it needs "
                    "{}.{} or newer, and a device that this version of Kiln knows",
                    request.bound.op.name, device.ordinal, device.name, device.capability.major,
                    device.capability.minor, needed / 10, needed % 10));
  }
  return choices;
}

std::vector<Variant> Planner::variants_of(const Op& op, std::size_t kernel,
                                          std::span<const Choice> choices) {
  std::vector<Variant> variants;
  for (const Choice& choice : choices) {
    variants.push_back({&op, kernel, choice.traits, choice.problem.target()});
  }
  return variants;
}

template <class Visit>
Status Planner::each_kernel(const PlanRequest& request, Visit&& visit) {
  const Result<std::vector<Choice>> choices = Planner::choices(request);
  if (!choices) {
    return tl::unexpected(choices.error());
  }
  const Op& op = request.bound.op;
  for (std::size_t kernel = 0; kernel < op.kernels.size(); ++kernel) {
    const Choice& best = choices->front();
    if (!launches_nothing(op.kernels[kernel].geometry(best.problem, best.traits))) {
      if (Status status = visit(variants_of(op, kernel, *choices)); !status) {
        return status;
      }
    }
  }
  return {};
}

Status Planner::fetch(const PlanRequest& request) {
  return each_kernel(request, [this](const std::vector<Variant>& variants) -> Status {
    const Result<Candidates> wanted = candidates_of(variants);
    if (!wanted) {
      return tl::unexpected(wanted.error());
    }
    const Result<Obtained> obtained = provider_.obtain(wanted->list, {}, driver_->major());
    return obtained ? Status() : tl::unexpected(obtained.error());
  });
}

std::vector<Variant> Planner::missing(const PlanRequest& request) {
  std::vector<Variant> missing;
  // A call that no target can serve misses nothing that could be made.
  (void)each_kernel(request, [&](const std::vector<Variant>& variants) -> Status {
    const Result<Candidates> wanted = candidates_of(variants);
    if (wanted && !provider_.cached(wanted->list, driver_->major())) {
      missing.push_back(variants[wanted->choice_of.front()]);
    }
    return {};
  });
  return missing;
}

Status Planner::load(const registry::BoundOp& bound, const Variant& variant, const Context& context,
                     Misses misses, const LookedUp& ahead) {
  const Result<Acquired> acquired = acquire(bound, {&variant, 1}, context, misses, ahead);
  return acquired ? Status() : tl::unexpected(acquired.error());
}

LookedUp Planner::look_up(const Variant& variant, const Context& context) {
  if (resident_of({&variant, 1}, context)) {
    return {};
  }
  const Result<Candidate> candidate = Candidate::of(variant);
  if (!candidate) {
    return {};
  }
  const auto found = provider_.find_cached({&*candidate, 1}, {}, driver_->major());
  LookedUp answer{.asked = true};
  if (found && *found) {
    const cache::Entry& entry = *(*found)->entry;
    cache::Entry& kept = answer.entry.emplace();
    kept.symbol = entry.symbol;
    kept.label = entry.label;
    kept.resources = entry.resources;
    kept.pdl_wait = entry.pdl_wait;
    kept.image = entry.image;
  }
  return answer;
}

Result<std::unique_ptr<const Plan>> Planner::make(const PlanRequest& request) {
  const Result<std::vector<Choice>> all = choices(request);
  if (!all) {
    return tl::unexpected(all.error());
  }
  std::span<const Choice> left(*all);
  for (;;) {
    std::size_t chosen = 0;
    Result<std::vector<PlanStep>> planned = steps(request, left, chosen);
    if (planned) {
      const Choice& choice = left[chosen];
      const auto& workspace = request.bound.op.workspace;
      return std::make_unique<const Plan>(driver_, request.bound, request.context,
                                          std::move(*planned),
                                          workspace ? workspace(choice.problem, choice.traits) : 0);
    }
    // The op's first kernel was there for a target whose others can be neither found nor made.
    if (!tries_next_target(planned.error().code) || chosen + 1 >= left.size()) {
      return tl::unexpected(std::move(planned.error()));
    }
    left = left.subspan(chosen + 1);
  }
}

// On failure, `chosen` is the target that failed, or the last one when none of them had the first
// kernel.
Result<std::vector<PlanStep>> Planner::steps(const PlanRequest& request,
                                             std::span<const Choice> choices, std::size_t& chosen) {
  std::vector<PlanStep> steps;
  std::span<const Choice> open = choices;  // Narrowed to one by the first kernel.
  for (std::size_t kernel = 0; kernel < request.bound.op.kernels.size(); ++kernel) {
    const Choice& best = open.front();
    const auto& geometry = request.bound.op.kernels[kernel].geometry;
    if (launches_nothing(geometry(best.problem, best.traits))) {
      continue;
    }
    const Result<Acquired> acquired =
        acquire(request.bound, variants_of(request.bound.op, kernel, open), request.context,
                request.misses);
    if (!acquired) {
      chosen += open.size() - 1;
      return tl::unexpected(acquired.error());
    }
    if (open.size() > 1) {
      chosen = acquired->choice;
      open = open.subspan(chosen, 1);
    }
    Result<PlanStep> step = this->step(request, kernel, open.front(), acquired->resident);
    if (!step) {
      return tl::unexpected(std::move(step.error()));
    }
    steps.push_back(std::move(*step));
  }
  return steps;
}

std::optional<Planner::Acquired> Planner::resident_of(std::span<const Variant> variants,
                                                      const Context& context) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const auto known = residents_.find(resident_key(variants[i], context));
    if (known != residents_.end()) {
      return Acquired{known->second, i};
    }
  }
  return std::nullopt;
}

Result<Planner::Acquired> Planner::acquire(const registry::BoundOp& bound,
                                           std::span<const Variant> variants,
                                           const Context& context, Misses misses,
                                           const LookedUp& ahead) {
  if (std::optional<Acquired> known = resident_of(variants, context)) {
    return *known;
  }
  if (misses == Misses::kRefuse) {
    return fail(ErrorCode::kNotLoaded, to_string(variants.front()));
  }
  Result<Acquired> loaded = load(variants, context, misses, ahead);
  if (!loaded) {
    return loaded;
  }
  // A built-in one's are checked when it is planned, so that warming up many costs less.
  if (!bound.builtin) {
    const CUfunction function = loaded->resident.function->handle;
    if (Status status = check_params(bound, variants.front().kernel, function); !status) {
      return tl::unexpected(std::move(status.error()));
    }
  }
  const std::lock_guard lock(mutex_);
  residents_.emplace(resident_key(variants[loaded->choice], context), loaded->resident);
  return loaded;
}

Result<Obtained> Planner::obtain(std::span<const Candidate> candidates, const Accept& accept,
                                 Misses misses, bool asked_before) {
  if (misses == Misses::kCompile) {
    return provider_.obtain(candidates, accept, driver_->major(), asked_before);
  }
  auto found = provider_.find_cached(candidates, accept, driver_->major(), asked_before);
  return found ? std::move(*found)
               : fail(ErrorCode::kCompileForbidden,
                      candidates.front().unit.label + " is in no cache");
}

tl::expected<Planner::Resident, LoadFailure> Planner::load(const cache::Entry& entry,
                                                           const Context& context) {
  TraceSpan span(trace_, entry.label, "load");
  span.arg("image_bytes", entry.image.size());
  auto loaded = LibraryTable::of_process().load(*driver_, context, entry.image, entry.symbol, this);
  if (!loaded) {
    return tl::unexpected(std::move(loaded.error()));
  }
  span.arg("loaded", loaded->library_loaded);
  if (loaded->library_loaded) {
    libraries_loaded_.fetch_add(1, std::memory_order_relaxed);
  }
  return Resident{loaded->function, entry.resources.shared_bytes, entry.pdl_wait};
}

Result<Planner::Acquired> Planner::load(std::span<const Variant> variants, const Context& context,
                                        Misses misses, const LookedUp& ahead) {
  if (ahead.entry) {
    if (const auto resident = load(*ahead.entry, context)) {
      return Acquired{*resident, 0};
    }
    // What comes of that is found out anew.
  }
  const Result<Candidates> wanted = candidates_of(variants);
  if (!wanted) {
    return tl::unexpected(wanted.error());
  }
  Acquired acquired;
  const Accept accept = [&](const cache::Entry& entry) -> tl::expected<void, LoadFailure> {
    auto resident = load(entry, context);
    if (!resident) {
      return tl::unexpected(std::move(resident.error()));
    }
    acquired.resident = *resident;
    return {};
  };
  const Result<Obtained> obtained = obtain(wanted->list, accept, misses, ahead.asked);
  if (!obtained) {
    return tl::unexpected(obtained.error());
  }
  acquired.choice = wanted->choice_of[obtained->candidate];
  return acquired;
}

// A description that does not match the kernel's signature would make the driver read parameters
// that nobody wrote; drivers of 12.4 and newer can tell.
Status Planner::check_params(const registry::BoundOp& bound, std::size_t kernel,
                             CUfunction function) const {
  const auto query = driver_->api().cuFuncGetParamInfo;
  if (query == nullptr) {
    return {};
  }
  const std::vector<registry::BoundParam>& params = bound.params[kernel];
  // That there is no parameter beyond the last one shows only as a failed call, which debugging
  // tools report; the built-in ops' own tests have settled it.
  const std::size_t asked = params.size() + (bound.builtin ? 0 : 1);
  for (std::size_t i = 0; i < asked; ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const CUresult result = query(function, i, &offset, &size);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE) {
      return {};  // It cannot tell; an index beyond the last parameter is an invalid value.
    }
    const bool exists = result == CUDA_SUCCESS;
    if (i == params.size() ? !exists : exists && size == param_bytes(params[i])) {
      continue;
    }
    const std::string found = exists ? fmt::format("one of {} bytes", size) : "none";
    const std::string expected =
        i < params.size() ? fmt::format("one of {} bytes", param_bytes(params[i])) : "none";
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: its description and its signature differ at parameter {} (from 0): "
                    "described {}, found {}",
                    kernel_name(bound.op, kernel), i, expected, found));
  }
  return {};
}

// As much as there is, once for every plan of the function: a launch takes what it asks for. How
// much is static the driver knows best: NVRTC's own cache leaves out the log that an entry has it
// from.
Status Planner::opt_in_to_shared(const Resident& resident, std::uint32_t dynamic_bytes,
                                 const DeviceInfo& device) const {
  int fixed = 0;
  if (driver_->api().cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                        resident.function->handle) != CUDA_SUCCESS) {
    fixed = resident.static_shared_bytes;
  }
  if (dynamic_bytes + static_cast<std::uint32_t>(fixed) <= kDefaultSharedBytes) {
    return {};
  }
  LibraryTable& table = LibraryTable::of_process();
  Status status =
      table.allow_shared(*driver_, *resident.function, device.max_shared_bytes_per_block - fixed);
  return status ? status
                : table.allow_shared(*driver_, *resident.function, static_cast<int>(dynamic_bytes));
}

Result<PlanStep> Planner::step(const PlanRequest& request, std::size_t kernel, const Choice& choice,
                               const Resident& resident) {
  const registry::BoundOp& bound = request.bound;
  const std::vector<registry::BoundParam>& params = bound.params[kernel];
  const std::string name = kernel_name(bound.op, kernel);
  if (params.size() > KernelLaunch::kMaxParams) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} parameters; at most {} are possible", name, params.size(),
                            KernelLaunch::kMaxParams));
  }
  PlanStep step;
  step.function = resident.function->handle;
  step.geometry = bound.op.kernels[kernel].geometry(choice.problem, choice.traits);
  step.pdl =
      choice.traits[kPdlTrait] != 0 && resident.pdl_wait && request.device.capability.major >= 9;
  step.variant = {&bound.op, kernel, choice.traits, choice.problem.target()};
  for (std::size_t i = 0; i < params.size(); ++i) {
    step.slots.push_back(
        {params[i], static_cast<std::uint64_t>(constant_of(
                        params[i], bound.op.kernels[kernel].params[i], choice.problem))});
  }
  Status status = bound.builtin ? check_params(bound, kernel, step.function) : Status();
  if (status) {
    status = check_geometry(name, step.geometry, resident.static_shared_bytes, request.device);
  }
  if (status) {
    status = opt_in_to_shared(resident, step.geometry.dynamic_shared_bytes, request.device);
  }
  if (status && volume(step.geometry.cluster) > kPortableCluster) {
    status =
        driver_->check("cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)",
                       driver_->api().cuFuncSetAttribute(
                           step.function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  }
  if (status && step.geometry.cooperative) {
    status = check_cooperative(*driver_, name, step.function, step.geometry, request.device);
  }
  if (!status) {
    return tl::unexpected(std::move(status.error()));
  }
  return step;
}

}  // namespace kiln::runtime
