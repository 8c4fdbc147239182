#include "runtime/warmup.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/driver/library_table.hpp"
#include "runtime/engine_impl.hpp"
#include "runtime/look_ahead.hpp"
#include "runtime/share_work.hpp"
#include "runtime/work_list.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

using Handful = std::span<const Variant>;

// Variants to read together: those that may share an image, so that threads do not wait for each
// other's, and not one by one, since to hand one over takes about as long as to read it. The first
// is alone, because it is waited for.
std::vector<Handful> handfuls_of(std::span<const Variant> all) {
  std::vector<Handful> handfuls;
  std::size_t begin = 0;
  std::size_t of_op = 0;  // Variants of the same op right before this one.
  for (std::size_t i = 1; i <= all.size(); ++i) {
    of_op = i < all.size() && all[i].op == all[i - 1].op ? of_op + 1 : 0;
    if (i == 1 || of_op % registry::kMaxGroup == 0) {
      handfuls.push_back(all.subspan(begin, i - begin));
      begin = i;
    }
  }
  return handfuls;
}

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
  using Read = std::function<LookedUp(const Variant&)>;

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
    const Read read = variants_.size() > 1 ? reader() : nullptr;
    const std::vector<Handful> handfuls = handfuls_of(variants_);
    LookAhead<std::vector<LookedUp>> ahead(handfuls.size(), read ? hands() : 0, [&](auto i) {
      return read ? read_all(handfuls[i], read) : std::vector<LookedUp>();
    });
    std::vector<Variant> left;
    for (const Handful& handful : handfuls) {
      std::vector<LookedUp> looked_up = ahead.take();
      looked_up.resize(handful.size());  // What was not looked up is when it is loaded.
      for (std::size_t i = 0; i < handful.size(); ++i) {
        const Variant& variant = handful[i];
        if (!finish([&] { return to_string(variant); }, load_variant(variant, misses, looked_up[i]),
                    misses)) {
          left.push_back(variant);
        }
      }
    }
    variants_ = std::move(left);
  }

  static std::vector<LookedUp> read_all(const Handful& handful, const Read& read) {
    std::vector<LookedUp> all;
    all.reserve(handful.size());
    for (const Variant& variant : handful) {
      LookedUp one = read(variant);
      // A directory has a copy of an image for each of its kernels; one is enough to hold.
      if (one.entry && !all.empty() && all.back().entry &&
          one.entry->image == all.back().entry->image) {
        one.entry->image = all.back().entry->image;
      }
      all.push_back(std::move(one));
    }
    return all;
  }

  // What may be done on any thread: to look the kernel up, and to load its library, after which its
  // function is still to be made for the context. Empty where no kernel can be loaded.
  Read reader() {
    auto look_up = engine_.launcher().look_up();
    auto driver = engine_.launcher().driver();
    if (!look_up || !driver) {
      return nullptr;
    }
    return [look_up = std::move(look_up), driver = std::move(*driver)](const Variant& variant) {
      LookedUp looked_up = look_up(variant);
      if (looked_up.entry) {
        LibraryTable::of_process().load_ahead(*driver, looked_up.entry->image);
      }
      return looked_up;
    };
  }

  Status load_variant(const Variant& variant, Misses misses, const LookedUp& looked_up) {
    const Result<const registry::BoundOp*> bound = engine_.registry().find(variant.op->name);
    return bound ? engine_.launcher().prepare(**bound, variant, misses, looked_up)
                 : Status(tl::unexpected(bound.error()));
  }

  // To read an image and load its library takes longer than to make its functions.
  static std::size_t hands() {
    constexpr unsigned kMost = 4;
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
