#include "runtime/doctor.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/entries.hpp"

namespace kiln::tools {
namespace {

using runtime::DoctorReport;

Json to_json(const DoctorReport::Driver& driver) {
  Json devices = Json::array();
  for (const DoctorReport::Device& device : driver.devices) {
    devices.push_back({{"ordinal", device.ordinal},
                       {"name", device.name},
                       {"compute_capability",
                        fmt::format("{}.{}", device.capability.major, device.capability.minor)},
                       {"arch", device.target}});
  }
  return {{"found", driver.found},
          {"problem", in_words_of_the_command(driver.problem)},
          {"path", driver.path},
          {"version", driver.version},
          {"minimum_version", driver.minimum_version},
          {"devices", devices}};
}

Json to_json(const DoctorReport::Compiling& compiling) {
  return {{"policy", runtime::policy_name(compiling.policy)},
          {"in_process", compiling.in_process},
          {"worker", compiling.worker},
          {"worker_problem", compiling.worker_problem}};
}

Json to_json(const DoctorReport::Nvrtc& nvrtc) {
  return {{"usable", nvrtc.usable},
          {"problem", nvrtc.problem},
          {"path", nvrtc.path},
          {"builtins_path", nvrtc.builtins_path},
          {"version", nvrtc.version},
          {"id", nvrtc.id},
          {"builtins_id", nvrtc.builtins_id},
          {"origin", nvrtc.origin},
          {"passed_over", nvrtc.passed_over}};
}

Json to_json(const DoctorReport& report) {
  Json ops = Json::array();
  for (const DoctorReport::OpRow& row : report.ops) {
    ops.push_back({{"op", row.op},
                   {"arch", row.target},
                   {"variants", row.variants},
                   {"cached", row.cached},
                   {"ability", ability_name(row.ability)},
                   {"reason", row.reason}});
  }
  return {{"version", report.kiln_version},
          {"ok", report.ok()},
          {"driver", to_json(report.driver)},
          {"compiling", to_json(report.compiling)},
          {"nvrtc", to_json(report.nvrtc)},
          {"cache",
           {{"root", report.cache.root},
            {"why", report.cache.why},
            {"writable", report.cache.writable},
            {"description", report.cache.description},
            {"fallback", report.cache.fallback},
            {"trust", report.cache.trust},
            {"trust_reason", report.cache.trust_reason},
            {"limits", tools::to_json(report.cache.limits)},
            {"layers", tools::to_json(report.cache.layers)}}},
          {"ops", ops}};
}

void print_driver(const DoctorReport::Driver& driver) {
  if (!driver.found) {
    print_out("driver    none: {}\n", in_words_of_the_command(driver.problem));
    return;
  }
  print_out("driver    {} at {} (Kiln needs {})\n", driver.version, driver.path,
            driver.minimum_version);
  for (const DoctorReport::Device& device : driver.devices) {
    print_out("device {}  {}, compute capability {}.{}, gets {}\n", device.ordinal, device.name,
              device.capability.major, device.capability.minor, device.target);
  }
  if (driver.devices.empty()) {
    print_out("device    none\n");
  }
}

const char* compiling_text(JitPolicy policy) {
  switch (policy) {
    case JitPolicy::kAllow:
      return "allowed";
    case JitPolicy::kWarn:
      return "allowed, with a warning for each kernel";
    case JitPolicy::kForbid:
      return "forbidden, by KILN_JIT; no NVRTC is sought";
  }
  return "unknown";
}

void print_worker(const DoctorReport::Compiling& compiling) {
  if (compiling.in_process) {
    print_out("worker    none: compiles run in this process, as asked\n");
  } else if (compiling.worker.empty()) {
    print_out("worker    none: {}\n", compiling.worker_problem);
  } else {
    print_out("worker    {}\n", compiling.worker);
  }
}

void print_nvrtc(const DoctorReport::Nvrtc& nvrtc) {
  if (nvrtc.usable) {
    print_out("nvrtc     {} at {} ({})\n", nvrtc.version, nvrtc.path, nvrtc.origin);
    print_out("builtins  {}\n", nvrtc.builtins_path);
  } else {
    print_out("nvrtc     none: {}\n", nvrtc.problem);
  }
  for (const std::string& set : nvrtc.passed_over) {
    print_out("          passed over: {}\n", set);
  }
}

void print_cache(const DoctorReport::Cache& cache) {
  print_out("cache     {}\n", cache.description);
  print_out("trust     {}{}{}\n", cache.trust, cache.trust_reason.empty() ? "" : ": ",
            cache.trust_reason);
  if (cache.limits.max_bytes.value_or(0) != 0) {
    print_out("limit     {} bytes\n", *cache.limits.max_bytes);
  }
  if (cache.limits.max_age.value_or(std::chrono::seconds(0)).count() != 0) {
    print_out("limit     {} seconds without use\n", cache.limits.max_age->count());
  }
  for (const cache::LayerState& layer : cache.layers) {
    const std::string state = layer.usable            ? "usable"
                              : layer.problem.empty() ? "not there yet"
                                                      : "not used: " + layer.problem;
    print_out("layer     {}{}, {}\n", layer.name, layer.writable ? " (new kernels go here)" : "",
              state);
  }
}

// Without a device the ops are looked at for a target that nobody named.
void print_assumed(const DoctorReport& report) {
  if (!report.driver.devices.empty() || report.ops.empty()) {
    return;
  }
  print_out(
      "assumed   {}, since there is no device here: {}. For another: kiln prebuild --check --arch "
      "ARCH\n",
      report.ops.front().target,
      report.assumes_cached ? "the architecture that the cache holds most of"
      : report.nvrtc.usable ? "the newest architecture that this NVRTC compiles for"
                            : "the newest architecture that Kiln knows");
}

// The architectures whose kernels are missing, with commas between them. Without a device it is for
// the reader to say which.
std::string lacking_archs(const DoctorReport& report) {
  if (report.driver.devices.empty()) {
    return "ARCH";
  }
  std::vector<std::string> archs;
  for (const DoctorReport::OpRow& row : report.ops) {
    if (row.ability == DoctorReport::Ability::kNeither &&
        std::find(archs.begin(), archs.end(), row.target) == archs.end()) {
      archs.push_back(row.target);
    }
  }
  return fmt::format("{}", fmt::join(archs, ","));
}

std::string remedy(const DoctorReport& report) {
  const std::string prebuild =
      fmt::format("kiln prebuild --arch {} --cache '{}'", lacking_archs(report), report.cache.root);
  if (!report.may_compile()) {
    return "some op is not in the cache in full, and compiling is forbidden here. This fills it, "
           "where compiling is allowed (KILN_JIT=allow): " +
           prebuild;
  }
  return "some op can neither be loaded from the cache nor compiled here. Name an NVRTC that can, "
         "by "
         "KILN_NVRTC, or fill the cache where there is one: " +
         prebuild;
}

void print_report(const DoctorReport& report) {
  print_out("kiln      {}\n", report.kiln_version);
  print_driver(report.driver);
  print_out("compiling {}\n", compiling_text(report.compiling.policy));
  if (report.may_compile()) {
    print_nvrtc(report.nvrtc);
    print_worker(report.compiling);
  }
  print_cache(report.cache);
  print_assumed(report);
  for (const DoctorReport::OpRow& row : report.ops) {
    print_out("op        {} for {}: {}; {}\n", row.op, row.target, ability_name(row.ability),
              row.reason);
  }
}

int diagnose(const std::string& cache, bool json) {
  Engine engine(engine_options(cache));
  const DoctorReport report = runtime::examine(engine);
  if (json) {
    print_json(to_json(report));
  } else {
    print_report(report);
  }
  if (!report.ok()) {
    complain(remedy(report));
    return kFailure;
  }
  return kSuccess;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Say what was found on this machine and what each op can do here.");
  const auto cache = std::make_shared<std::string>();
  const auto json = std::make_shared<bool>(false);
  add_cache_option(*command, *cache);
  command->add_flag("--json", *json, "Print one JSON object.");
  command->callback(
      [&action, cache, json] { action = [cache, json] { return diagnose(*cache, *json); }; });
}

}  // namespace kiln::tools
