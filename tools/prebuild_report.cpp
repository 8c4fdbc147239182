#include "tools/prebuild_report.hpp"

#include <algorithm>

#include "tools/commands.hpp"
#include "tools/entries.hpp"

namespace kiln::tools {
namespace {

const char* outcome(const KernelInfo& kernel) {
  if (kernel.from_cache) {
    return "cached";
  }
  return kernel.stored ? "compiled" : "compiled but not stored";
}

// A glob that matches no op is skipped for no particular target.
std::string describe_line(const PrebuildReport::Skipped& skipped) {
  const std::string target = skipped.target.empty() ? "" : " for " + skipped.target;
  return fmt::format("{}{}: {}", skipped.op, target, skipped.reason);
}

Json to_json(const KernelInfo& kernel) {
  return {{"name", kernel.name},
          {"symbol", kernel.symbol},
          {"key", kernel.key},
          {"from_cache", kernel.from_cache},
          {"stored", kernel.stored},
          {"cubin_bytes", kernel.cubin_bytes},
          {"registers", kernel.registers},
          {"shared_bytes", kernel.shared_bytes},
          {"spill_bytes", kernel.spill_bytes},
          {"pdl_wait", kernel.pdl_wait},
          {"seconds", kernel.seconds}};
}

}  // namespace

std::string describe_line(const KernelInfo& kernel) {
  if (kernel.symbol.empty()) {
    return fmt::format("{}: failed", kernel.name);
  }
  return fmt::format("{}: {} in {:.3f} s, {} registers, {} spill bytes", kernel.name,
                     outcome(kernel), kernel.seconds, kernel.registers, kernel.spill_bytes);
}

Json to_json(const std::vector<PrebuildReport::Skipped>& skipped) {
  Json out = Json::array();
  for (const PrebuildReport::Skipped& pair : skipped) {
    out.push_back({{"op", pair.op}, {"arch", pair.target}, {"reason", pair.reason}});
  }
  return out;
}

Json to_json(const MissingEntries& missing) {
  Json out = Json::array();
  for (const auto& [entry, reason] : missing) {
    out.push_back({{"variant", to_string(entry)}, {"reason", reason}});
  }
  return out;
}

Json to_json(const PrebuildReport& report, const cache::StoreCounters& counters) {
  Json out = {{"compiled", report.compiled},    {"cached", report.cached},
              {"failed", report.failed.size()}, {"stopped", report.stopped},
              {"seconds", report.seconds},      {"kernels", Json::array()},
              {"failures", Json::array()},      {"skipped", to_json(report.skipped)}};
  for (const PrebuildReport::Failed& failed : report.failed) {
    out["failures"].push_back({{"kernel", failed.kernel}, {"message", failed.message}});
  }
  for (const KernelInfo& kernel : report.kernels) {
    out["kernels"].push_back(to_json(kernel));
  }
  out["counters"] = to_json(counters);
  return out;
}

void print_skipped(const std::vector<PrebuildReport::Skipped>& skipped) {
  for (const PrebuildReport::Skipped& pair : skipped) {
    print_out("skipped {}\n", describe_line(pair));
  }
}

void print_summary(const PrebuildReport& report) {
  print_skipped(report.skipped);
  for (const PrebuildReport::Failed& failed : report.failed) {
    const bool named = failed.message.find(failed.kernel) != std::string::npos;
    print_out("{}{}\n", named ? std::string() : failed.kernel + ": ", failed.message);
  }
  print_out("{} compiled, {} from the cache, {} failed, {} skipped{} in {:.3f} s\n",
            report.compiled, report.cached, report.failed.size(), report.skipped.size(),
            report.stopped == 0 ? std::string()
                                : fmt::format(", {} left when it was stopped", report.stopped),
            report.seconds);
}

std::size_t complain_of_unmatched(const std::vector<PrebuildReport::Skipped>& skipped) {
  std::size_t unmatched = 0;
  for (const PrebuildReport::Skipped& glob : skipped) {
    if (glob.target.empty()) {
      complain(fmt::format("--op {}", describe_line(glob)));
      ++unmatched;
    }
  }
  return unmatched;
}

void complain_of_missing(const MissingEntries& missing) {
  for (const auto& [entry, reason] : missing) {
    complain(fmt::format("the manifest's {} no longer exists: {}", to_string(entry), reason));
  }
}

int judge(const PrebuildReport& report, bool may_be_idle) {
  if (!report.failed.empty()) {
    const std::string& first = report.failed.front().message;
    complain(fmt::format("{} failed, the first: {}",
                         count(report.failed.size(), "kernel", "kernels"),
                         first.substr(0, first.find('\n'))));
  }
  const auto lost = std::count_if(report.kernels.begin(), report.kernels.end(),
                                  [](const KernelInfo& kernel) { return !kernel.stored; });
  if (lost > 0) {
    complain(fmt::format("{} compiled but could not be stored in the cache.",
                         count(static_cast<std::size_t>(lost), "kernel was", "kernels were")));
  }
  const std::size_t unmatched = complain_of_unmatched(report.skipped);
  const bool idle = report.kernels.empty() && report.failed.empty() && report.stopped == 0;
  if (idle && unmatched == 0 && !may_be_idle) {
    complain(report.skipped.empty()
                 ? "nothing was built: what was asked for names no kernel that there is"
                 : "nothing was built: " + describe_line(report.skipped.front()));
  }
  const bool done = report.ok() || (idle && may_be_idle);
  return done && lost == 0 && unmatched == 0 ? kSuccess : kFailure;
}

}  // namespace kiln::tools
