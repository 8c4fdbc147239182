#include "runtime/doctor.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <kiln/version.hpp>

#include "runtime/engine_impl.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

using Ability = DoctorReport::Ability;

/// Why this target cannot be compiled here; empty when it can.
std::string why_not_compilable(KernelProvider& provider, const Target& target) {
  if (provider.policy() == JitPolicy::kForbid) {
    return "compiling is forbidden";
  }
  const Result<Compiler*> compiler = provider.source().compiler();
  if (!compiler) {
    return "no usable NVRTC was found";
  }
  Status status = (*compiler)->check_target(target);
  return status ? std::string() : std::move(status.error().message);
}

DoctorReport::Driver examine_driver(Engine::Impl& engine) {
  DoctorReport::Driver report;
  report.minimum_version =
      fmt::format("{}.{}", Driver::kOldestVersion / 1000, Driver::kOldestVersion % 1000 / 10);
  const Result<std::shared_ptr<const Driver>> driver = engine.driver();
  if (!driver) {
    report.problem = driver.error().message;
    return report;
  }
  report.found = true;
  report.path = (*driver)->path();
  report.version = (*driver)->version_text();
  for (const DeviceInfo& device : (*driver)->devices()) {
    const std::vector<Target> targets = registry::targets_for_device(device.capability);
    const auto compilable = std::find_if(targets.begin(), targets.end(), [&](const Target& target) {
      return why_not_compilable(engine.provider(), target).empty();
    });
    std::string target;
    if (!targets.empty()) {
      target = to_string(compilable != targets.end() ? *compilable : targets.front());
    }
    report.devices.push_back({device.ordinal, device.name, device.capability, std::move(target)});
  }
  return report;
}

DoctorReport::Compiling examine_compiling(KernelProvider& provider) {
  DoctorReport::Compiling report;
  report.policy = provider.policy();
  report.in_process = provider.source().in_process();
  if (report.in_process || report.policy == JitPolicy::kForbid) {
    return report;
  }
  Result<std::string> worker = provider.source().worker();
  if (worker) {
    report.worker = std::move(*worker);
  } else {
    report.worker_problem = std::move(worker.error().message);
  }
  return report;
}

DoctorReport::Nvrtc examine_nvrtc(KernelProvider& provider) {
  DoctorReport::Nvrtc report;
  if (provider.policy() == JitPolicy::kForbid) {
    return report;
  }
  const Result<Toolchain>& toolchain = provider.source().toolchain();
  if (!toolchain) {
    report.problem = toolchain.error().message;
    return report;
  }
  report.path = toolchain->nvrtc_path;
  report.builtins_path = toolchain->builtins_path;
  report.version = toolchain->version();
  report.id = toolchain->nvrtc_id;
  report.builtins_id = toolchain->builtins_id;
  report.origin = toolchain->origin;
  report.passed_over = toolchain->passed_over;
  const Result<Compiler*> compiler = provider.source().compiler();
  report.usable = compiler.has_value();
  if (!compiler) {
    report.problem = compiler.error().message;
  }
  return report;
}

DoctorReport::Cache examine_cache(Engine::Impl& engine) {
  const cache::RootChoice& root = engine.root_choice();
  cache::Store& store = engine.store();
  const cache::RootPlan& plan = store.plan();
  return {root.path,
          root.why,
          !plan.writable.empty(),
          plan.description,
          plan.fallback ? plan.writable : "",
          plan.verdict.name(),
          plan.verdict.reason,
          store.limits(),
          store.layers()};
}

/// How many of the kernels that `op` has for the first of `targets` are in the cache, for that
/// target or a later one of the list.
void count_cached(KernelProvider& provider, std::optional<int> driver_major,
                  const registry::BoundOp& bound, const std::vector<Target>& targets,
                  DoctorReport::OpRow& row) {
  for (const Variant& variant : registry::enumerate(bound, targets.front())) {
    std::vector<Candidate> candidates;
    for (const Target& target : targets) {
      Variant other = variant;
      other.target = target;
      if (Result<Candidate> candidate = Candidate::of(other)) {
        candidates.push_back(std::move(*candidate));
      }
    }
    ++row.variants;
    row.cached += !candidates.empty() && provider.cached(candidates, driver_major) ? 1U : 0U;
  }
}

/// `targets` is what would run, best first; not empty.
DoctorReport::OpRow examine_op(KernelProvider& provider, std::optional<int> driver_major,
                               const registry::BoundOp& bound, std::vector<Target> targets) {
  DoctorReport::OpRow row;
  row.op = bound.op.name;
  row.target = to_string(targets.front());
  const Status served = registry::serves(bound.op, targets.front());
  std::erase_if(targets, [&](const Target& target) { return !registry::serves(bound.op, target); });
  if (targets.empty()) {
    row.reason = served.error().message;
    return row;
  }
  row.target = to_string(targets.front());
  count_cached(provider, driver_major, bound, targets, row);
  const bool loadable = row.variants != 0 && row.cached == row.variants;
  std::string why_not;
  const auto compilable = std::find_if(targets.begin(), targets.end(), [&](const Target& target) {
    std::string reason = why_not_compilable(provider, target);
    const bool yes = reason.empty();
    if (why_not.empty()) {
      why_not = std::move(reason);
    }
    return yes;
  });
  const std::string in_cache =
      fmt::format("{} of {} kernels are in the cache", row.cached, row.variants);
  if (loadable) {
    row.ability = Ability::kLoadable;
    row.reason = in_cache;
  } else if (compilable != targets.end()) {
    row.ability = Ability::kCompilable;
    row.reason =
        fmt::format("{}; the others can be compiled for {}", in_cache, to_string(*compilable));
  } else {
    row.reason = fmt::format("{}; the others cannot be compiled: {}", in_cache, why_not);
  }
  return row;
}

/// Without a device to ask for, all ops are looked at for one target: that which the cache holds
/// most of; where it holds nothing, the newest one that can be compiled here, or else the newest.
void examine_without_device(KernelProvider& provider, const registry::Registry& ops,
                            DoctorReport& report) {
  const auto known = registry::known_targets();
  const auto rows_of = [&](const Target& target) {
    std::vector<DoctorReport::OpRow> rows;
    for (const registry::BoundOp* bound : ops.all()) {
      rows.push_back(examine_op(provider, std::nullopt, *bound, {target}));
    }
    return rows;
  };
  std::size_t most = 0;
  for (std::size_t i = known.size(); i-- > 0;) {
    std::vector<DoctorReport::OpRow> rows = rows_of(known[i].target);
    std::size_t cached = 0;
    for (const DoctorReport::OpRow& row : rows) {
      cached += row.cached;
    }
    if (cached > most) {
      most = cached;
      report.ops = std::move(rows);
    }
  }
  report.assumes_cached = most > 0;
  if (!report.assumes_cached) {
    const auto newest = std::find_if(known.rbegin(), known.rend(), [&](const auto& one) {
      return why_not_compilable(provider, one.target).empty();
    });
    report.ops = rows_of(newest != known.rend() ? newest->target : known.back().target);
  }
}

/// One list per kind of device: equal devices give equal rows.
std::vector<std::vector<Target>> target_lists(const DoctorReport& report) {
  std::vector<std::vector<Target>> lists;
  for (const DoctorReport::Device& device : report.driver.devices) {
    std::vector<Target> list = registry::targets_for_device(device.capability);
    if (list.empty()) {  // Older than anything in the table.
      list.push_back({device.capability.major, device.capability.minor, TargetSuffix::kBase});
    }
    if (std::find(lists.begin(), lists.end(), list) == lists.end()) {
      lists.push_back(std::move(list));
    }
  }
  return lists;
}

}  // namespace

bool DoctorReport::ok() const noexcept {
  return std::none_of(ops.begin(), ops.end(),
                      [](const OpRow& row) { return row.ability == Ability::kNeither; });
}

const char* policy_name(JitPolicy policy) noexcept {
  switch (policy) {
    case JitPolicy::kAllow:
      return "allow";
    case JitPolicy::kWarn:
      return "warn";
    case JitPolicy::kForbid:
      return "forbid";
  }
  return "unknown";
}

const char* ability_name(DoctorReport::Ability ability) noexcept {
  switch (ability) {
    case Ability::kLoadable:
      return "loadable";
    case Ability::kCompilable:
      return "compilable";
    case Ability::kNeither:
      return "neither";
  }
  return "unknown";
}

DoctorReport examine(Engine& engine) {
  Engine::Impl& impl = engine.impl();
  DoctorReport report;
  report.kiln_version = KILN_VERSION;
  report.driver = examine_driver(impl);
  report.compiling = examine_compiling(impl.provider());
  report.nvrtc = examine_nvrtc(impl.provider());
  report.cache = examine_cache(impl);
  const auto lists = target_lists(report);
  const auto driver = impl.driver();
  const std::optional<int> major = driver ? std::optional((*driver)->major()) : std::nullopt;
  for (const registry::BoundOp* bound : impl.registry().all()) {
    for (const std::vector<Target>& targets : lists) {
      report.ops.push_back(examine_op(impl.provider(), major, *bound, targets));
    }
  }
  if (lists.empty()) {
    examine_without_device(impl.provider(), impl.registry(), report);
  }
  return report;
}

}  // namespace kiln::runtime
