#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <kiln/engine.hpp>

#include "runtime/engine_impl.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/entries.hpp"
#include "tools/progress.hpp"

namespace kiln::tools {
namespace {

struct PrebuildArgs {
  std::vector<std::string> archs;
  std::vector<std::string> ops;
  std::string cache;
  int jobs = 1;
  bool json = false;
};

const char* outcome(const KernelInfo& kernel) {
  if (kernel.from_cache) {
    return "cached";
  }
  return kernel.stored ? "compiled" : "compiled but not stored";
}

std::string describe_line(const KernelInfo& kernel) {
  if (kernel.symbol.empty()) {
    return fmt::format("{}: failed", kernel.name);
  }
  return fmt::format("{}: {} in {:.3f} s, {} registers, {} spill bytes", kernel.name,
                     outcome(kernel), kernel.seconds, kernel.registers, kernel.spill_bytes);
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

Json to_json(const PrebuildReport& report, const cache::StoreCounters& counters) {
  Json out = {{"compiled", report.compiled},    {"cached", report.cached},
              {"failed", report.failed.size()}, {"seconds", report.seconds},
              {"kernels", Json::array()},       {"failures", Json::array()},
              {"skipped", Json::array()}};
  for (const PrebuildReport::Failed& failed : report.failed) {
    out["failures"].push_back({{"kernel", failed.kernel}, {"message", failed.message}});
  }
  for (const PrebuildReport::Skipped& skipped : report.skipped) {
    out["skipped"].push_back(
        {{"op", skipped.op}, {"arch", skipped.target}, {"reason", skipped.reason}});
  }
  for (const KernelInfo& kernel : report.kernels) {
    out["kernels"].push_back(to_json(kernel));
  }
  out["counters"] = tools::to_json(counters);
  return out;
}

void print_summary(const PrebuildReport& report) {
  for (const PrebuildReport::Skipped& skipped : report.skipped) {
    print_out("skipped {}\n", describe_line(skipped));
  }
  for (const PrebuildReport::Failed& failed : report.failed) {
    print_out("{}\n", failed.message);
  }
  print_out("{} compiled, {} from the cache, {} failed, {} skipped in {:.3f} s\n", report.compiled,
            report.cached, report.failed.size(), report.skipped.size(), report.seconds);
}

int judge(const PrebuildReport& report) {
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
  // A misspelt op beside a good one must not pass for a complete prebuild.
  std::size_t unmatched = 0;
  for (const PrebuildReport::Skipped& skipped : report.skipped) {
    if (skipped.target.empty()) {
      complain(fmt::format("--op {}", describe_line(skipped)));
      ++unmatched;
    }
  }
  if (report.kernels.empty() && report.failed.empty() && unmatched == 0) {
    complain(report.skipped.empty()
                 ? "nothing was built: no op was asked for"
                 : "nothing was built: " + describe_line(report.skipped.front()));
  }
  return report.ok() && lost == 0 && unmatched == 0 ? kSuccess : kFailure;
}

int prebuild(const PrebuildArgs& args, std::vector<Target> targets) {
  Engine engine(engine_options(args.cache));
  PrebuildReport report;
  {
    Progress progress(args.json);
    PrebuildRequest request;
    request.targets = std::move(targets);
    request.ops = args.ops;
    request.jobs = args.jobs;
    request.progress = [&progress](std::size_t done, std::size_t total, const KernelInfo& kernel) {
      progress.step(done, total, describe_line(kernel));
    };
    report = engine.prebuild(request);
  }
  if (args.json) {
    print_json(to_json(report, engine.impl().store().counters()));
  } else {
    print_summary(report);
  }
  return judge(report);
}

}  // namespace

// A malformed architecture is a mistake on the command line; one that is well-formed but cannot be
// served is for the report.
std::vector<Target> parse_archs(const std::vector<std::string>& archs) {
  std::vector<Target> out;
  for (const std::string& arch : archs) {
    try {
      const Target target = parse_target(arch);
      if (std::find(out.begin(), out.end(), target) == out.end()) {
        out.push_back(target);
      }
    } catch (const Error& error) {
      throw CLI::ValidationError("--arch", error.what());
    }
  }
  return out;
}

void add_prebuild(CLI::App& app, Action& action) {
  const auto args = std::make_shared<PrebuildArgs>();
  args->jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  CLI::App* command =
      app.add_subcommand("prebuild", "Compile every variant of ops into the cache. Needs no GPU.");
  command->add_option("--arch", args->archs, "Architectures such as sm_90a,sm_100a.")
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A[,A...]");
  command->add_option("--op", args->ops, "Only ops whose name matches; may be repeated.")
      ->delimiter(',')
      ->type_name("GLOB[,GLOB...]")
      ->allow_extra_args(false);
  add_cache_option(*command, args->cache);
  command->add_option("--jobs", args->jobs, "Compiles at the same time (default: all cores).")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command->add_flag("--json", args->json, "Print one JSON object.");
  command->callback([&action, args] {
    action = [args, targets = parse_archs(args->archs)] { return prebuild(*args, targets); };
  });
}

}  // namespace kiln::tools
