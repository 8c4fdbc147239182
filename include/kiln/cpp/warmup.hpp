#pragma once

/// \file
/// Making many calls ready at once.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <kiln/cpp/arg.hpp>
#include <kiln/cpp/error.hpp>
#include <kiln/cpp/options.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

/// A call that will come; of its arguments only dtypes, shapes, strides and devices count. The
/// tensors must live as long as this.
struct CallShape {
  std::string op;
  std::vector<Arg> args;
};

struct WarmupRequest {
  std::vector<CallShape> calls;
  /// A file of EngineOptions::record, of which what the current context's device runs is made
  /// ready too; empty for none.
  std::string manifest;
  int jobs = 0;  ///< Compiles at the same time; 0: EngineOptions::compile_jobs.
  /// Called after each kernel or call, from any thread, one at a time: done, total, its name. What
  /// it throws ends the warm-up after the compiles under way, and comes out of Engine::warmup.
  std::function<void(std::size_t, std::size_t, const char*)> progress;
};

struct WarmupReport {
  struct Failed {
    std::string name;
    ErrorCode code = ErrorCode::kInternal;
    std::string message;
  };
  std::uint64_t prepared = 0;  ///< Calls and kernels of the request that are now ready.
  std::uint64_t compiled = 0;  ///< Kernels that this engine compiled meanwhile.
  std::uint64_t loaded = 0;    ///< Kernels that it loaded into the driver meanwhile.
  std::vector<Failed> failed;  ///< What is not ready, and why.
  double seconds = 0;
  bool ok() const noexcept { return failed.empty(); }
};

namespace detail {

/// One warm-up as C makes it. C calls back, and no exception may pass through C: the first one is
/// kept, ends the warm-up, and is thrown again when C has returned.
class Warmup {
 public:
  explicit Warmup(const WarmupRequest& request) : request_(request) {
    calls_.reserve(request.calls.size());
    for (const CallShape& call : request.calls) {
      calls_.push_back({call.op.c_str(), c_args(call.args), call.args.size()});
    }
  }
  Warmup(const Warmup&) = delete;
  Warmup& operator=(const Warmup&) = delete;

  WarmupReport run(kiln_engine* engine) {
    kiln_warmup_request c = sized<kiln_warmup_request>();
    c.calls = calls_.data();
    c.call_count = calls_.size();
    c.manifest = c_text(request_.manifest);
    c.jobs = request_.jobs;
    c.progress = request_.progress ? &Warmup::progress : nullptr;
    c.failed = &Warmup::failed;
    c.stop = &Warmup::stop;
    c.user = this;
    kiln_warmup_report done = sized<kiln_warmup_report>();
    const kiln_status status = kiln_warmup(engine, &c, &done);
    if (thrown_ != nullptr) {
      std::rethrow_exception(thrown_);
    }
    if (report_.ok()) {  // Else the status is the first one's of what could not be had.
      check(status);
    }
    report_.prepared = done.prepared;
    report_.compiled = done.compiled;
    report_.loaded = done.loaded;
    report_.seconds = done.seconds;
    return report_;
  }

 private:
  template <class Call>
  void guarded(Call&& call) noexcept {
    if (thrown_ == nullptr) {
      try {
        call();
      } catch (...) {
        thrown_ = std::current_exception();
      }
    }
  }
  static void progress(std::size_t done, std::size_t total, const char* name, void* user) noexcept {
    auto& self = *static_cast<Warmup*>(user);
    self.guarded([&] { self.request_.progress(done, total, name); });
  }
  static void failed(const char* name, kiln_status status, const char* message,
                     void* user) noexcept {
    auto& self = *static_cast<Warmup*>(user);
    self.guarded([&] {
      self.report_.failed.push_back({name, static_cast<ErrorCode>(status), message});
    });
  }
  static std::int32_t stop(void* user) noexcept {
    return static_cast<const Warmup*>(user)->thrown_ != nullptr ? 1 : 0;
  }

  const WarmupRequest& request_;
  std::vector<kiln_call> calls_;
  std::exception_ptr thrown_;
  WarmupReport report_;
};

}  // namespace detail
}  // namespace abi0
}  // namespace kiln
