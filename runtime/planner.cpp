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

std::string kernel_name(const PlanRequest& request, std::size_t kernel) {
  return fmt::format("{}, kernel {}", request.bound.op.name, request.bound.op.kernels[kernel].name);
}

bool launches_nothing(const Geometry& geometry) {
  return volume(geometry.grid) == 0;
}

// Whether another target may still do where this one did not.
bool tries_next_target(ErrorCode code) {
  return code == ErrorCode::kUnsupportedTarget || code == ErrorCode::kCompilerUnavailable;
}

}  // namespace

Planner::Planner(std::shared_ptr<const Driver> driver, KernelProvider& provider)
    : driver_(std::move(driver)), provider_(provider) {}

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
    const Result<Resident> resident = acquire(request, kernel, open);
    if (!resident) {
      chosen += open.size() - 1;
      return tl::unexpected(resident.error());
    }
    if (open.size() > 1) {
      chosen = resident->choice;
      open = open.subspan(chosen, 1);
    }
    Result<PlanStep> step = this->step(request, kernel, open.front(), *resident);
    if (!step) {
      return tl::unexpected(std::move(step.error()));
    }
    steps.push_back(std::move(*step));
  }
  return steps;
}

Result<Planner::Resident> Planner::acquire(const PlanRequest& request, std::size_t kernel,
                                           std::span<const Choice> choices) {
  ResidentKey key{std::bit_cast<std::uint64_t>(&request.bound), kernel, request.context.id};
  for (const Choice& choice : choices) {
    const Target& target = choice.problem.target();
    key.push_back(static_cast<std::uint64_t>(target.compute_capability()) << 8 |
                  static_cast<std::uint8_t>(target.suffix));
    for (std::size_t i = 0; i < request.bound.op.traits.size(); ++i) {
      key.push_back(static_cast<std::uint64_t>(choice.traits.at(i)));
    }
  }
  const auto known = residents_.find(key);
  if (known != residents_.end()) {
    return known->second;
  }
  Result<Resident> loaded = load(request, kernel, choices);
  if (loaded) {
    residents_.emplace(std::move(key), *loaded);
  }
  return loaded;
}

Result<Planner::Resident> Planner::load(const PlanRequest& request, std::size_t kernel,
                                        std::span<const Choice> choices) {
  std::vector<Candidate> candidates;
  std::vector<std::size_t> choice_of;  // Per candidate.
  std::optional<Failure> unusable;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    Result<Candidate> candidate =
        Candidate::of({&request.bound.op, kernel, choice.traits, choice.problem.target()});
    if (candidate) {
      candidates.push_back(std::move(*candidate));
      choice_of.push_back(i);
    } else if (!unusable) {
      unusable = std::move(candidate.error());  // A combination that this target does not have.
    }
  }
  if (candidates.empty()) {
    return tl::unexpected(std::move(*unusable));
  }
  Resident resident;
  const Accept accept = [&](const cache::Entry& entry) -> tl::expected<void, LoadFailure> {
    auto loaded =
        LibraryTable::of_process().load(*driver_, request.context, entry.image, entry.symbol);
    if (!loaded) {
      return tl::unexpected(std::move(loaded.error()));
    }
    resident.function = loaded->function;
    if (loaded->library_loaded) {
      libraries_loaded_.fetch_add(1, std::memory_order_relaxed);
    }
    return {};
  };
  const Result<Obtained> obtained = provider_.obtain(candidates, accept, driver_->major());
  if (!obtained) {
    return tl::unexpected(obtained.error());
  }
  if (Status status = check_params(request, kernel, resident.function->handle); !status) {
    return tl::unexpected(std::move(status.error()));
  }
  resident.static_shared_bytes = obtained->entry->resources.shared_bytes;
  resident.pdl_wait = obtained->entry->pdl_wait;
  resident.choice = choice_of[obtained->candidate];
  return resident;
}

// A description that does not match the kernel's signature would make the driver read parameters
// that nobody wrote; drivers of 12.4 and newer can tell.
Status Planner::check_params(const PlanRequest& request, std::size_t kernel,
                             CUfunction function) const {
  const auto query = driver_->api().cuFuncGetParamInfo;
  if (query == nullptr) {
    return {};
  }
  const std::vector<registry::BoundParam>& params = request.bound.params[kernel];
  // That there is no parameter beyond the last one shows only as a failed call, which debugging
  // tools report; the built-in ops' own tests have settled it.
  const std::size_t asked = params.size() + (request.bound.builtin ? 0 : 1);
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
                    kernel_name(request, kernel), i, expected, found));
  }
  return {};
}

Result<PlanStep> Planner::step(const PlanRequest& request, std::size_t kernel, const Choice& choice,
                               const Resident& resident) {
  const registry::BoundOp& bound = request.bound;
  const std::vector<registry::BoundParam>& params = bound.params[kernel];
  const std::string name = kernel_name(request, kernel);
  if (params.size() > Plan::kMaxParams) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} parameters; at most {} are possible", name, params.size(),
                            Plan::kMaxParams));
  }
  PlanStep step;
  step.function = resident.function->handle;
  step.geometry = bound.op.kernels[kernel].geometry(choice.problem, choice.traits);
  step.pdl =
      choice.traits[kPdlTrait] != 0 && resident.pdl_wait && request.device.capability.major >= 9;
  step.kernel = kernel;
  for (const registry::BoundParam& param : params) {
    step.constants.push_back(param.source == Param::Source::kDim
                                 ? static_cast<std::uint64_t>(
                                       choice.problem.dim_at(static_cast<std::size_t>(param.index)))
                                 : 0);
  }
  Status status = check_geometry(name, step.geometry, resident.static_shared_bytes, request.device);
  const std::uint32_t dynamic = step.geometry.dynamic_shared_bytes;
  if (status &&
      dynamic + static_cast<std::uint32_t>(resident.static_shared_bytes) > kDefaultSharedBytes) {
    status = LibraryTable::of_process().allow_shared(*driver_, *resident.function,
                                                     static_cast<int>(dynamic));
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
