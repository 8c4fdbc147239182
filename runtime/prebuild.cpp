#include "runtime/prebuild.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fnmatch.h>

#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One kernel to make, and how that went.
struct Job {
  Variant variant;
  std::optional<KernelInfo> info;
  bool compiled = false;
  std::optional<PrebuildReport::Failed> failed;
};

void run(KernelProvider& provider, Job& job) {
  const Clock::time_point start = Clock::now();
  const std::string name = to_string(job.variant);
  const Result<Candidate> candidate = Candidate::of(job.variant);
  if (!candidate) {
    job.failed = {name, candidate.error().message};
    return;
  }
  const Result<Obtained> obtained = provider.obtain({&*candidate, 1});
  if (!obtained) {
    job.failed = {name, obtained.error().message};
    return;
  }
  job.info = kernel_info(*candidate, *obtained, seconds_since(start));
  job.compiled = !obtained->from_cache;
  if (!obtained->stored) {
    job.failed = {name, "compiled, but not stored: " + obtained->store_problem};
  }
}

/// Runs jobs on several threads and reports progress from one at a time.
class Crew {
 public:
  Crew(KernelProvider& provider, std::vector<Job>& jobs, const PrebuildRequest& request)
      : provider_(provider), jobs_(jobs), request_(request) {}

  void run_all() {
    const std::size_t hands =
        std::min(static_cast<std::size_t>(request_.jobs), std::max<std::size_t>(jobs_.size(), 1));
    {
      std::vector<std::jthread> threads;
      try {
        for (std::size_t i = 1; i < hands; ++i) {
          threads.emplace_back([this] { work(); });
        }
      } catch (const std::system_error&) {
        // A process limit: those that started, and this thread, do all of it.
      }
      work();
    }
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  void work() noexcept {
    try {
      for (std::size_t i = next_++; i < jobs_.size(); i = next_++) {
        run(provider_, jobs_[i]);
        report(jobs_[i]);
      }
    } catch (...) {
      next_ = jobs_.size();  // Nobody takes another job.
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
  }

  void report(const Job& job) {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (request_.progress) {
      KernelInfo unmade;
      unmade.name = to_string(job.variant);
      request_.progress(done_, jobs_.size(), job.info ? *job.info : unmade);
    }
  }

  KernelProvider& provider_;
  std::vector<Job>& jobs_;
  const PrebuildRequest& request_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;  // Guards what follows, and the progress callback.
  std::size_t done_ = 0;
  std::exception_ptr error_;
};

std::vector<const registry::BoundOp*> chosen_ops(const registry::Registry& registry,
                                                 const std::vector<std::string>& globs,
                                                 PrebuildReport& report) {
  std::vector<const registry::BoundOp*> all = registry.all();
  if (globs.empty()) {
    return all;
  }
  std::set<const registry::BoundOp*> chosen;
  for (const std::string& glob : globs) {
    bool any = false;
    for (const registry::BoundOp* bound : all) {
      if (fnmatch(glob.c_str(), bound->op.name.c_str(), 0) == 0) {
        chosen.insert(bound);
        any = true;
      }
    }
    if (!any) {
      report.skipped.push_back({glob, "", "no op has a name like this"});
    }
  }
  std::vector<const registry::BoundOp*> ordered;
  std::copy_if(all.begin(), all.end(), std::back_inserter(ordered),
               [&](const registry::BoundOp* bound) { return chosen.contains(bound); });
  return ordered;
}

/// Appends the pair's kernels to `jobs`, or the pair to `skipped`.
void add_pair(KernelProvider& provider, const registry::BoundOp& bound, const Target& target,
              std::vector<Job>& jobs, PrebuildReport& report) {
  const auto skip = [&](std::string reason) {
    report.skipped.push_back({bound.op.name, to_string(target), std::move(reason)});
  };
  if (Status served = registry::serves(bound.op, target); !served) {
    return skip(std::move(served.error().message));
  }
  const std::vector<Variant> variants = registry::enumerate(bound, target);
  if (variants.empty()) {
    return skip("the op has no kernel for this target");
  }
  // A target that this NVRTC does not know may still be there, made by another one.
  const Result<Toolchain>& toolchain = provider.toolchain();
  if (toolchain && !registry::nvrtc_knows(target, toolchain->major, toolchain->minor)) {
    const bool all_cached =
        std::all_of(variants.begin(), variants.end(), [&](const Variant& variant) {
          const Result<Candidate> candidate = Candidate::of(variant);
          return candidate && provider.cached({&*candidate, 1});
        });
    if (!all_cached) {
      return skip(fmt::format("NVRTC {} ({}) cannot compile for it; it can for {}",
                              toolchain->version(), toolchain->nvrtc_path,
                              registry::targets_of_nvrtc(toolchain->major, toolchain->minor)));
    }
  }
  for (const Variant& variant : variants) {
    jobs.push_back({variant, std::nullopt, false, std::nullopt});
  }
}

}  // namespace

PrebuildReport prebuild(const registry::Registry& registry, KernelProvider& provider,
                        const PrebuildRequest& request) {
  const Clock::time_point start = Clock::now();
  if (request.jobs < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("PrebuildRequest::jobs is {}; it must be at least 1", request.jobs));
  }
  if (request.targets.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "PrebuildRequest::targets is empty");
  }
  PrebuildReport report;
  std::vector<Job> jobs;
  const auto ops = chosen_ops(registry, request.ops, report);
  std::set<Target> seen;
  for (const Target& target : request.targets) {
    if (seen.insert(target).second) {
      for (const registry::BoundOp* bound : ops) {
        add_pair(provider, *bound, target, jobs, report);
      }
    }
  }
  Crew(provider, jobs, request).run_all();
  for (Job& job : jobs) {
    if (job.failed) {
      report.failed.push_back(std::move(*job.failed));
    } else {
      ++(job.compiled ? report.compiled : report.cached);
    }
    if (job.info) {
      report.kernels.push_back(std::move(*job.info));
    }
  }
  report.seconds = seconds_since(start);
  return report;
}

}  // namespace kiln::runtime
