#pragma once

/// \file
/// The engine: ops, compiler, cache and driver tied together.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <kiln/cpp/arg.hpp>
#include <kiln/cpp/counters.hpp>
#include <kiln/cpp/error.hpp>
#include <kiln/cpp/op_info.hpp>
#include <kiln/cpp/op_spec.hpp>
#include <kiln/cpp/options.hpp>
#include <kiln/cpp/plan.hpp>
#include <kiln/cpp/prebuild.hpp>
#include <kiln/cpp/prefetch.hpp>
#include <kiln/cpp/view.hpp>
#include <kiln/cpp/warmup.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

/// The answer of Engine::can_use.
struct CanUse {
  bool ok = false;
  std::string reason;  ///< Empty when ok.
  explicit operator bool() const noexcept { return ok; }
};

/// Making one reads the environment and looks at the cache root; it needs neither NVRTC nor a
/// driver until something must be compiled or launched. One serves every device and every thread of
/// a process, one context per device.
///
/// Kernels that were loaded into the driver stay loaded until the process ends, whatever becomes of
/// the engine, so a captured graph outlives it; engines of a process share them. Only unload() says
/// otherwise.
class Engine {
 public:
  explicit Engine(const EngineOptions& options = {})
      : engine_(nullptr, Destroy{std::make_unique<LogSink>(options.log)}) {
    detail::EngineOptionsForC c(options);
    LogSink* const log = engine_.get_deleter().log.get();
    if (log->callback) {
      c.set_log(&Engine::forward, log);
    }
    kiln_engine* made = nullptr;
    detail::check(kiln_engine_create(c.c(), &made));
    engine_.reset(made);
  }

  /// Adds an op of the caller's own. Throws kDuplicateOp when the name is taken, kInvalidArgument
  /// when the description contradicts itself, kIo for a source file that cannot be read.
  void register_op(const OpSpec& op) {
    detail::check(kiln_register_op(handle(), detail::OpSpecForC(op).c()));
  }
  /// Built-in ops first, then in the order of registration.
  std::vector<std::string> op_names() const { return detail::op_names_of(handle()); }
  /// Throws kUnknownOp, naming near matches.
  OpInfo op_info(const Name& op) const { return detail::op_info_of(handle(), op.c_str()); }

  /// Whether the op's contract and policy allow this call, and the device where there is a driver
  /// to ask. A bad call is an answer, not an exception; an op that is not there, or an argument
  /// that it does not have, throws.
  CanUse can_use(const Name& op, Args args) const {
    std::int32_t usable = 0;
    const char* reason = nullptr;
    detail::check(
        kiln_can_use(handle(), op.c_str(), detail::c_args(args), args.size(), &usable, &reason));
    return {usable != 0, reason};
  }

  /// Bytes of workspace that launch needs for these arguments. Asks the driver which device they
  /// are on when the op uses workspace at all.
  std::size_t workspace_bytes(const Name& op, Args args) const {
    std::size_t bytes = 0;
    detail::check(
        kiln_workspace_bytes(handle(), op.c_str(), detail::c_args(args), args.size(), &bytes));
    return bytes;
  }

  /// Checks the call against the op's contract and launches its kernels on `stream`. The first call
  /// of a kind finds its kernels in the cache or compiles them, and loads them; later ones only
  /// launch, with one driver call per kernel and no allocation. A plan is quicker still.
  void launch(const Name& op, Args args, StreamHandle stream) {
    detail::check(
        kiln_launch(handle(), op.c_str(), detail::c_args(args), args.size(), stream, nullptr));
  }
  void launch(const Name& op, Args args, StreamHandle stream, const LaunchOptions& options) {
    const kiln_launch_options c = detail::c_options(options);
    detail::check(kiln_launch(handle(), op.c_str(), detail::c_args(args), args.size(), stream, &c));
  }

  /// Resolves a call for repeated launching in the current context. Finds or compiles its kernels
  /// and loads them. Checks all but the data pointers, which may be null.
  Plan plan(const Name& op, Args args) {
    kiln_plan* made = nullptr;
    detail::check(kiln_plan_create(handle(), op.c_str(), detail::c_args(args), args.size(), &made));
    return Plan(made);
  }

  /// Starts to find or compile what a call with these arguments needs, on a thread of its own, and
  /// loads nothing. Data pointers may be null. A call outside the contract throws at once; the
  /// rest, Prefetch::get gives.
  Prefetch prefetch(const Name& op, Args args) {
    kiln_prefetch* started = nullptr;
    detail::check(
        kiln_prefetch_start(handle(), op.c_str(), detail::c_args(args), args.size(), &started));
    return Prefetch(started);
  }

  /// Finds or compiles, several at a time, everything that is asked for, and loads it into the
  /// current context; a later call of any of it neither compiles nor loads. What cannot be had is
  /// in the report, and the rest is made ready nonetheless. Throws for a request that is none: an
  /// op that is not there, a file that is no manifest.
  WarmupReport warmup(const WarmupRequest& request) { return detail::warmup(handle(), request); }

  /// Compiles every kernel of the ops for the targets into the cache, and needs no GPU: what `kiln
  /// prebuild` does, for ops that only this program knows. What cannot be made is in the report.
  /// Throws for a request that is none, and when there is nothing to be made.
  PrebuildReport prebuild(const PrebuildRequest& request) {
    return detail::prebuild(handle(), request);
  }

  /// Unloads from the driver every kernel that this engine uses and no other engine of the process
  /// does; says how many libraries they were. A Plan that was made before throws kNotLoaded; a
  /// launch by name loads again. The caller sees to it that the kernels' work has finished, that no
  /// graph with them is launched again, and that no other thread uses the engine. Refused
  /// (kInvalidArgument) while one of `streams`, or a stream of the current context that
  /// synchronises with the legacy default stream, is being captured; the driver does not tell of
  /// others.
  std::size_t unload(View<StreamHandle> streams) {
    std::size_t unloaded = 0;
    detail::check(kiln_unload(handle(), streams.data(), streams.size(), &unloaded));
    return unloaded;
  }

  /// Has kernels that could not be compiled, each of which is tried once, tried again.
  void forget_compile_failures() { detail::check(kiln_forget_compile_failures(handle())); }

  /// The targets that the current context's device runs, "sm_90a", best first: those to prebuild
  /// for with `kiln prebuild --arch`.
  std::vector<std::string> device_targets() const {
    const char* list = nullptr;
    detail::check(kiln_device_targets(handle(), &list));
    std::vector<std::string> targets;
    std::string target;
    for (const char* c = list; *c != '\0'; ++c) {
      if (*c == ',') {
        targets.push_back(std::exchange(target, {}));
      } else {
        target += *c;
      }
    }
    targets.push_back(std::move(target));
    return targets;
  }

  Counters counters() const { return detail::counters_of(handle()); }

  /// For calls of the C interface; stays this object's. Null once it was moved from.
  kiln_engine* handle() const noexcept { return engine_.get(); }

 private:
  static void forward(std::int32_t level, const char* message, void* user) noexcept {
    try {
      static_cast<const LogSink*>(user)->callback(static_cast<LogLevel>(level), message);
    } catch (...) {  // There is nobody to throw it to: the line may come from any thread.
    }
  }

  struct Destroy {
    std::unique_ptr<LogSink> log;  // Stays where it is, whatever moves, until the engine is gone.
    void operator()(kiln_engine* engine) const noexcept { kiln_engine_destroy(engine); }
  };
  std::unique_ptr<kiln_engine, Destroy> engine_;
};

}  // namespace abi0
}  // namespace kiln
