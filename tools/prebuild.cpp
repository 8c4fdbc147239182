#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <kiln/engine.hpp>

#include "runtime/engine_impl.hpp"
#include "runtime/work_list.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/interrupt.hpp"
#include "tools/lookup.hpp"
#include "tools/prebuild_check.hpp"
#include "tools/prebuild_refusals.hpp"
#include "tools/prebuild_report.hpp"
#include "tools/progress.hpp"
#include "tools/sizes.hpp"
#include "tools/wanted.hpp"

namespace kiln::tools {
namespace {

struct PrebuildArgs {
  std::vector<std::string> archs;
  WantedRequest wanted;
  std::string shard_text;
  Shard shard;
  std::string cache;
  std::vector<std::string> packs;
  int jobs = 0;
  bool check = false;
  bool allow_missing = false;
  bool explain_size = false;
  bool json = false;
};

// What no longer exists is a failure unless it was agreed to, and is told either way.
int judge_missing(const PrebuildArgs& args, const MissingEntries& missing) {
  complain_of_missing(missing);
  return missing.empty() || args.allow_missing ? kSuccess : kFailure;
}

void add_sizes(const PrebuildArgs& args, const std::vector<KernelInfo>& kernels, Json* json) {
  if (!args.explain_size) {
    return;
  }
  const Sizes sizes = sizes_of(kernels);
  if (json != nullptr) {
    (*json)["sizes"] = to_json(sizes);
  } else {
    print_sizes(sizes);
  }
}

int judge_check(const CheckReport& report, const Wanted& asked) {
  const std::size_t unmatched = complain_of_unmatched(asked.skipped);
  if (!report.lacking.empty()) {
    complain(fmt::format("{} lacking", count(report.lacking.size(), "kernel is", "kernels are")));
  }
  // An image build may rely on the answer.
  if (asked.variants.empty() && unmatched == 0) {
    complain("nothing was checked: no op has a kernel for what was asked");
  }
  const bool complete = report.lacking.empty() && !asked.variants.empty() && unmatched == 0;
  return complete ? kSuccess : kFailure;
}

int check(const PrebuildArgs& args) {
  const bool packs_alone = !args.packs.empty() && args.cache.empty();
  Engine engine(engine_options(args.cache));
  Lookup lookup(packs_alone ? nullptr : &engine, args.packs);
  const registry::Registry& registry = engine.impl().registry();
  const Wanted asked = wanted(registry, args.wanted);
  runtime::WorkList work = runtime::WorkList::of(registry, asked.variants);
  work.keep(args.shard);
  const CheckReport report = check(lookup, work);
  if (args.json) {
    Json json = to_json(report, lookup);
    json["skipped"] = to_json(asked.skipped);
    json["missing"] = to_json(asked.missing);
    add_sizes(args, report.found, &json);
    print_json(json);
  } else {
    print_skipped(asked.skipped);
    print(report, lookup);
    add_sizes(args, report.found, nullptr);
  }
  return std::max(judge_missing(args, asked.missing), judge_check(report, asked));
}

PrebuildReport build(Engine& engine, const PrebuildArgs& args, const Wanted& asked,
                     const Interrupt& interrupt) {
  PrebuildReport report;
  if (!asked.variants.empty()) {  // An engine takes none for a mistake.
    Progress progress(args.json);
    PrebuildRequest request;
    request.variants = asked.variants;
    request.jobs = args.jobs;
    request.shard = args.shard;
    request.stop = interrupt.stop_token();
    request.progress = [&progress](std::size_t done, std::size_t total, const KernelInfo& kernel) {
      progress.step(done, total, describe_line(kernel), !kernel.stored);
    };
    report = engine.prebuild(request);
  }
  report.skipped = asked.skipped;
  return report;
}

int prebuild(const PrebuildArgs& args) {
  const Interrupt interrupt;  // Before the engine, which may start threads.
  Engine engine(engine_options(args.cache));
  const Wanted asked = wanted(engine.impl().registry(), args.wanted);
  refuse_archs(engine, args.wanted.targets, asked);
  refuse_without_place(engine, asked, args.shard);
  refuse_without_compiler(engine, asked, args.shard);
  const PrebuildReport report = build(engine, args, asked, interrupt);
  if (args.json) {
    Json json = to_json(report, engine.impl().store().counters());
    json["missing"] = to_json(asked.missing);
    add_sizes(args, report.kernels, &json);
    print_json(json);
  } else {
    add_sizes(args, report.kernels, nullptr);
    print_summary(report);
  }
  // With more shards than work, some have none.
  const bool may_be_idle = args.shard.count > 1 && !asked.variants.empty();
  const int code = std::max(judge_missing(args, asked.missing), judge(report, may_be_idle));
  if (report.stopped == 0 || interrupt.signal() == 0) {
    return code;
  }
  complain(fmt::format("stopped by SIG{}; what is done is kept, and the same command goes on",
                       sigabbrev_np(interrupt.signal())));
  return interrupt.exit_code();
}

void add_what_options(CLI::App& command, PrebuildArgs& args) {
  command.add_option("--arch", args.archs, "Architectures such as sm_90a,sm_100a.")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A[,A...]");
  command.add_option("--op", args.wanted.ops, "Only ops whose name matches; may be repeated.")
      ->delimiter(',')
      ->type_name("GLOB[,GLOB...]")
      ->allow_extra_args(false);
  CLI::Option* manifest =
      command
          .add_option("--manifest", args.wanted.manifests,
                      "Only what this file of KILN_RECORD names; may be repeated. Without --arch, "
                      "for the architectures that it names.")
          ->allow_extra_args(false)
          ->type_name("FILE");
  command
      .add_flag("--allow-missing", args.allow_missing,
                "A manifest's entry that no longer exists is no failure.")
      ->needs(manifest);
  command
      .add_option("--shard", args.shard_text,
                  "Only part I of N, from 0, of a job array; the caches of all parts merge by "
                  "copying them together. In Slurm "
                  "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT of an array that starts at 0, in "
                  "Kubernetes $JOB_COMPLETION_INDEX/completions.")
      ->type_name("I/N");
}

void add_how_options(CLI::App& command, PrebuildArgs& args) {
  add_cache_option(command, args.cache);
  command
      .add_option("--jobs", args.jobs,
                  "Compiles at the same time (default: as many as cores and memory allow).")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  CLI::Option* check = command.add_flag(
      "--check", args.check,
      "Build nothing; list what the cache and its layers lack, and exit 1 when that is anything. "
      "Needs no NVRTC.");
  command
      .add_option("--pack", args.packs,
                  "Check this pack: alone, or after the cache that --cache names. May be repeated.")
      ->needs(check)
      ->allow_extra_args(false)
      ->type_name("FILE");
  command.add_flag("--explain-size", args.explain_size,
                   "Say which ops and architectures the bytes are of, and name the largest "
                   "kernels.");
  command.add_flag("--json", args.json, "Print one JSON object.");
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
  CLI::App* command = app.add_subcommand(
      "prebuild",
      "Compile every variant of ops into the cache; what is there already is left as it is. "
      "Needs no GPU.");
  add_what_options(*command, *args);
  add_how_options(*command, *args);
  command->callback([&action, command, args] {
    if (args->archs.empty() && args->wanted.manifests.empty()) {
      throw CLI::RequiredError("--arch or --manifest");
    }
    args->wanted.targets = parse_archs(args->archs);
    if (command->get_option("--shard")->count() > 0) {
      args->shard = parse_shard(args->shard_text);
    }
    action = [args] { return args->check ? check(*args) : prebuild(*args); };
  });
}

}  // namespace kiln::tools
