#include "runtime/warmup.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/engine_impl.hpp"
#include "runtime/look_ahead.hpp"
#include "runtime/share_work.hpp"
#include "runtime/work_list.hpp"

namespace kiln::runtime {
namespace {

/// One warm-up under way.
class Warmup {
 public:
  Warmup(Engine::Impl& engine, const WarmupRequest& request) : engine_(engine), request_(request) {}

  WarmupReport run() {
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t compiles = engine_.provider().compiles();
    const std::uint64_t loads = engine_.launcher().libraries_loaded();
    check_calls();
    for (const Variant& variant : request_.variants) {
      variants_.push_back(variant);
    }
    total_ = calls_.size() + variants_.size();
    if (engine_.provider().policy() != JitPolicy::kForbid) {
      load(Misses::kLeave);
      compile();
    }
    load(Misses::kCompile);
    report_.compiled = engine_.provider().compiles() - compiles;
    report_.loaded = engine_.launcher().libraries_loaded() - loads;
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(report_);
  }

 private:
  void fail(const std::string& name, const Failure& failure) {
    report_.failed.push_back({name, failure.code, failure.message});
  }

  void check_calls() {
    for (const CallShape& call : request_.calls) {
      const registry::BoundOp& bound = Engine::Impl::bound(call.op);
      Result<CallShapes> shapes = engine_.launcher().shapes(bound, call.args);
      if (shapes) {
        calls_.push_back(*shapes);
      } else {
        fail(bound.op.name, shapes.error());
      }
    }
  }

  // Of what is left, the kernels that are in no cache, for any target that would do.
  std::vector<Variant> missing() {
    std::vector<Variant> missing = variants_;
    for (const CallShapes& call : calls_) {
      for (const Variant& variant : engine_.launcher().missing(call)) {
        missing.push_back(variant);
      }
    }
    return missing;
  }

  // Several at a time. What fails here is remembered, and reported when it is to be loaded.
  void compile() {
    KernelProvider& provider = engine_.provider();
    const WorkList work = WorkList::of(engine_.registry(), missing());
    if (work.items.empty()) {
      return;
    }
    total_ += work.kernels();
    if (request_.jobs > 0) {
      provider.source().set_jobs(request_.jobs);
    }
    const int jobs = request_.jobs > 0 ? request_.jobs : provider.source().jobs();
    share_work(work.items.size(), static_cast<std::size_t>(jobs), std::stop_token(),
               [&](std::size_t i) {
                 provider.obtain_group(work.items[i].members);
                 for (const Candidate& member : work.items[i].members) {
                   step([&] { return member.unit.label; });
                 }
               });
  }

  // On this thread, whose context it is for. Leaves in calls_ and variants_ what is in no cache and
  // was not to be compiled.
  void load(Misses misses) {
    std::erase_if(calls_, [&](const CallShapes& call) {
      return finish([&] { return call.bound->op.name; }, engine_.launcher().prepare(call, misses),
                    misses);
    });
    load_variants(misses);
  }

  void load_variants(Misses misses) {
    const auto look_up = variants_.size() > 1 ? engine_.launcher().look_up() : nullptr;
    LookAhead<LookedUp> ahead(variants_.size(), look_up ? hands() : 0, [&](std::size_t i) {
      return look_up ? look_up(variants_[i]) : LookedUp();
    });
    std::vector<Variant> left;
    for (const Variant& variant : variants_) {
      const LookedUp looked_up = ahead.take();
      const Result<const registry::BoundOp*> bound = engine_.registry().find(variant.op->name);
      const Status status = bound ? engine_.launcher().prepare(**bound, variant, misses, looked_up)
                                  : Status(tl::unexpected(bound.error()));
      if (!finish([&] { return to_string(variant); }, status, misses)) {
        left.push_back(variant);
      }
    }
    variants_ = std::move(left);
  }

  // Reading takes about as long as the driver takes to load what was read.
  static std::size_t hands() {
    constexpr unsigned kMost = 3;
    return std::min(kMost, std::max(std::thread::hardware_concurrency(), 1U) - 1);
  }

  // Whether that settles it. The name is made where somebody wants it.
  template <class Name>
  bool finish(const Name& name, const Status& status, Misses misses) {
    if (!status && misses == Misses::kLeave &&
        status.error().code == ErrorCode::kCompileForbidden) {
      return false;
    }
    if (status) {
      ++report_.prepared;
    } else {
      fail(name(), status.error());
    }
    step(name);
    return true;
  }

  template <class Name>
  void step(const Name& name) {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (request_.progress) {
      request_.progress(done_, total_, name());
    }
  }

  Engine::Impl& engine_;
  const WarmupRequest& request_;
  std::vector<CallShapes> calls_;  // Of the request, those that are still to be prepared.
  std::vector<Variant> variants_;  // Likewise.
  WarmupReport report_;
  std::size_t total_ = 0;
  std::mutex mutex_;  // Guards done_, and the progress callback.
  std::size_t done_ = 0;
};

}  // namespace

WarmupReport warmup(Engine::Impl& engine, const WarmupRequest& request) {
  return Warmup(engine, request).run();
}

}  // namespace kiln::runtime
