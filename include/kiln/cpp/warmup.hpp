#pragma once

/// \file
/// Making many calls ready at once.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <kiln/cpp/arg.hpp>
#include <kiln/cpp/callbacks.hpp>
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
  /// Names of ops of which every kernel is made ready that the best target of the current context's
  /// device has; Engine::op_names() for all there is. One that does not serve it has failed.
  std::vector<std::string> ops;
  int jobs = 0;  ///< Compiles at the same time; 0: EngineOptions::compile_jobs.
  ProgressCallback progress;
};

struct WarmupReport {
  using Failed = abi0::Failed;
  std::uint64_t prepared = 0;  ///< Calls and kernels of the request that are now ready.
  std::uint64_t compiled = 0;  ///< Kernels that this engine compiled meanwhile.
  std::uint64_t loaded = 0;    ///< Libraries that it loaded; see kiln_warmup_report.
  std::vector<Failed> failed;  ///< What is not ready, and why.
  double seconds = 0;
  bool ok() const noexcept { return failed.empty(); }
};

namespace detail {

inline WarmupReport warmup(kiln_engine* engine, const WarmupRequest& request) {
  std::vector<kiln_call> calls;
  for (const CallShape& call : request.calls) {
    calls.push_back({call.op.c_str(), c_args(call.args), call.args.size()});
  }
  const std::vector<const char*> ops = c_texts(request.ops);
  Callbacks callbacks(request.progress);
  kiln_warmup_request c = sized<kiln_warmup_request>();
  c.calls = calls.data();
  c.call_count = calls.size();
  c.manifest = c_text(request.manifest);
  c.ops = ops.data();
  c.op_count = ops.size();
  c.jobs = request.jobs;
  callbacks.set(c);
  kiln_warmup_report done = sized<kiln_warmup_report>();
  const kiln_status status = kiln_warmup(engine, &c, &done);
  WarmupReport report;
  report.failed = callbacks.finish(status);
  report.prepared = done.prepared;
  report.compiled = done.compiled;
  report.loaded = done.loaded;
  report.seconds = done.seconds;
  return report;
}

}  // namespace detail
}  // namespace abi0
}  // namespace kiln
