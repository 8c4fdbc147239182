#include "runtime/prebuild.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fnmatch.h>

#include "runtime/share_work.hpp"
#include "runtime/work_list.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One prebuild's work, its results in the order of the list, and what is told of them on the way.
class Progress {
 public:
  Progress(const PrebuildRequest& request, std::size_t total) : request_(request), total_(total) {}

  void add(const KernelInfo& kernel) {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (request_.progress) {
      request_.progress(done_, total_, kernel);
    }
  }

 private:
  const PrebuildRequest& request_;
  const std::size_t total_;
  std::mutex mutex_;  // Guards what follows, and the progress callback.
  std::size_t done_ = 0;
};

/// How one item of the work list went; not made at all when the prebuild was stopped before.
struct Outcome {
  std::vector<KernelInfo> kernels;
  std::vector<PrebuildReport::Failed> failed;
  std::vector<std::string> missing;
  std::size_t compiled = 0;
  std::size_t cached = 0;
};

Outcome check(KernelProvider& provider, const WorkItem& item) {
  Outcome outcome;
  for (const Candidate& member : item.members) {
    const std::optional<Result<Obtained>> found = provider.find_cached({&member, 1});
    if (found && *found) {
      outcome.kernels.push_back(kernel_info(member, **found, 0));
      ++outcome.cached;
    } else {
      outcome.missing.push_back(member.unit.label);
    }
  }
  return outcome;
}

Outcome build(KernelProvider& provider, const WorkItem& item) {
  const Clock::time_point start = Clock::now();
  const std::vector<Result<Obtained>> results = provider.obtain_group(item.members);
  const double each = seconds_since(start) / static_cast<double>(results.size());
  Outcome outcome;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string& label = item.members[i].unit.label;
    const Result<Obtained>& result = results[i];
    if (!result) {
      outcome.failed.push_back({label, result.error().code, result.error().message});
      continue;
    }
    outcome.kernels.push_back(kernel_info(item.members[i], *result, each));
    if (!result->stored) {
      outcome.failed.push_back(
          {label, ErrorCode::kNotStored, "compiled, but not stored: " + result->store_problem});
    } else {
      ++(result->from_cache ? outcome.cached : outcome.compiled);
    }
  }
  return outcome;
}

void tell(Progress& progress, const Outcome& outcome) {
  for (const KernelInfo& kernel : outcome.kernels) {
    progress.add(kernel);
  }
  const auto tell_name = [&](const std::string& name) {
    KernelInfo unmade;
    unmade.name = name;
    progress.add(unmade);
  };
  for (const PrebuildReport::Failed& failed : outcome.failed) {
    const bool made =
        std::any_of(outcome.kernels.begin(), outcome.kernels.end(),
                    [&](const KernelInfo& info) { return info.name == failed.kernel; });
    if (!made) {
      tell_name(failed.kernel);
    }
  }
  for (const std::string& name : outcome.missing) {
    tell_name(name);
  }
}

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void run(KernelProvider& provider, const PrebuildRequest& request, const WorkList& work,
         PrebuildReport& report) {
  Progress progress(request, work.kernels());
  std::vector<std::optional<Outcome>> outcomes(work.items.size());
  const int jobs = request.jobs > 0 ? request.jobs : provider.source().jobs();
  // What is under way when it is asked to stop is given up, not waited for.
  std::optional<std::stop_callback<std::function<void()>>> on_stop(std::in_place, request.stop,
                                                                   [&] {
                                                                     provider.stop_waiting(true);
                                                                     provider.source().cancel();
                                                                   });
  share_work(work.items.size(), static_cast<std::size_t>(jobs), request.stop, [&](std::size_t i) {
    Outcome outcome =
        request.check ? check(provider, work.items[i]) : build(provider, work.items[i]);
    if (request.stop.stop_requested() && !outcome.failed.empty()) {
      return;
    }
    tell(progress, outcome);
    outcomes[i] = std::move(outcome);
  });
  on_stop.reset();
  provider.stop_waiting(false);
  provider.source().resume();
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i]) {
      report.stopped += work.items[i].members.size();
      continue;
    }
    append(report.kernels, std::move(outcomes[i]->kernels));
    append(report.failed, std::move(outcomes[i]->failed));
    append(report.missing, std::move(outcomes[i]->missing));
    report.compiled += outcomes[i]->compiled;
    report.cached += outcomes[i]->cached;
  }
  std::sort(report.kernels.begin(), report.kernels.end(),
            [](const KernelInfo& a, const KernelInfo& b) { return a.name < b.name; });
  std::sort(report.failed.begin(), report.failed.end(),
            [](const PrebuildReport::Failed& a, const PrebuildReport::Failed& b) {
              return a.kernel < b.kernel;
            });
  std::sort(report.missing.begin(), report.missing.end());
}

// Whether this NVRTC does not matter for the kernels: all are there, made by another one.
bool all_cached(KernelProvider& provider, const std::vector<Variant>& variants) {
  return std::all_of(variants.begin(), variants.end(), [&](const Variant& variant) {
    const Result<Candidate> candidate = Candidate::of(variant);
    return candidate && provider.cached({&*candidate, 1});
  });
}

void check_request(const PrebuildRequest& request) {
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorCode::kInvalidArgument, message);
  };
  if (request.jobs < 0) {
    refuse(fmt::format("PrebuildRequest::jobs is {}; it must not be negative", request.jobs));
  }
  if (request.targets.empty() && request.variants.empty()) {
    refuse("PrebuildRequest::targets is empty");
  }
  const Shard& shard = request.shard;
  if (shard.count < 1 || shard.count > Shard::kMost || shard.index < 0 ||
      shard.index >= shard.count) {
    refuse(
        fmt::format("PrebuildRequest::shard is {}/{}; the index counts from 0 and is less than "
                    "the count, which is at most {}",
                    shard.index, shard.count, Shard::kMost));
  }
}

std::vector<Variant> wanted_variants(const registry::Registry& registry, KernelProvider& provider,
                                     const PrebuildRequest& request, PrebuildReport& report) {
  if (!request.variants.empty()) {
    return request.variants;
  }
  Selection selection = select(registry, request.ops, request.targets);
  report.skipped = unmatched(registry, request.ops);
  append(report.skipped, std::move(selection.skipped));
  const Result<Toolchain>& toolchain = provider.source().toolchain();
  std::vector<Variant> wanted;
  for (Selection::Pair& pair : selection.pairs) {
    std::string reason =
        toolchain && !request.check ? why_not_compilable(*toolchain, pair.target) : "";
    if (reason.empty() || all_cached(provider, pair.variants)) {
      append(wanted, std::move(pair.variants));
    } else {
      report.skipped.push_back({pair.op, to_string(pair.target), std::move(reason)});
    }
  }
  return wanted;
}

// Appends the pair to what is selected, or to what is skipped.
void add_pair(const registry::BoundOp& bound, const Target& target, Selection& selection) {
  const auto skip = [&](std::string reason) {
    selection.skipped.push_back({bound.op.name, to_string(target), std::move(reason)});
  };
  if (Status served = registry::serves(bound.op, target); !served) {
    return skip(std::move(served.error().message));
  }
  std::vector<Variant> variants = registry::enumerate(bound, target);
  if (variants.empty()) {
    return skip("the op has no kernel for this target");
  }
  selection.pairs.push_back({bound.op.name, target, std::move(variants)});
}

}  // namespace

bool is_named(const std::vector<std::string>& globs, const std::string& op) {
  return globs.empty() || std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
           return fnmatch(glob.c_str(), op.c_str(), 0) == 0;
         });
}

std::vector<PrebuildReport::Skipped> unmatched(const registry::Registry& registry,
                                               const std::vector<std::string>& globs) {
  const std::vector<const registry::BoundOp*> all = registry.all();
  std::vector<PrebuildReport::Skipped> found;
  for (const std::string& glob : globs) {
    if (std::none_of(all.begin(), all.end(), [&](const registry::BoundOp* bound) {
          return is_named({glob}, bound->op.name);
        })) {
      found.push_back({glob, "", "no op has a name like this"});
    }
  }
  return found;
}

Selection select(const registry::Registry& registry, const std::vector<std::string>& globs,
                 const std::vector<Target>& targets) {
  Selection selection;
  std::set<Target> seen;
  for (const Target& target : targets) {
    if (!seen.insert(target).second) {
      continue;
    }
    for (const registry::BoundOp* bound : registry.all()) {
      if (is_named(globs, bound->op.name)) {
        add_pair(*bound, target, selection);
      }
    }
  }
  return selection;
}

std::string why_not_compilable(const Toolchain& toolchain, const Target& target) {
  return registry::nvrtc_knows(target, toolchain.major, toolchain.minor)
             ? std::string()
             : fmt::format("NVRTC {} ({}) cannot compile for it; it can for {}",
                           toolchain.version(), toolchain.nvrtc_path,
                           registry::targets_of_nvrtc(toolchain.major, toolchain.minor));
}

PrebuildReport prebuild(const registry::Registry& registry, KernelProvider& provider,
                        const PrebuildRequest& request) {
  const Clock::time_point start = Clock::now();
  check_request(request);
  PrebuildReport report;
  WorkList work = WorkList::of(registry, wanted_variants(registry, provider, request, report));
  work.keep(request.shard);
  report.failed = std::move(work.failed);
  if (request.jobs > 0) {
    provider.source().set_jobs(request.jobs);
  }
  run(provider, request, work, report);
  report.seconds = seconds_since(start);
  return report;
}

}  // namespace kiln::runtime
