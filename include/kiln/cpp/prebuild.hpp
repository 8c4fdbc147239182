#pragma once

/// \file
/// Compiling ahead, where there is no GPU.

#include <cstdint>
#include <string>
#include <vector>

#include <kiln/cpp/callbacks.hpp>
#include <kiln/cpp/options.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

struct PrebuildRequest {
  std::vector<std::string> targets;  ///< "sm_90a", ...
  std::vector<std::string> ops;      ///< Names, or globs over names; empty: every op.
  int jobs = 0;                      ///< Compiles at the same time; 0: EngineOptions::compile_jobs.
  ProgressCallback progress;
};

struct PrebuildReport {
  std::uint64_t compiled = 0;  ///< Kernels that were compiled and stored.
  std::uint64_t cached = 0;    ///< Kernels that were there.
  std::uint64_t skipped = 0;   ///< Pairs of an op and a target that it does not serve.
  std::vector<Failed> failed;  ///< Kernels that could not be compiled, or not be stored.
  double seconds = 0;
  bool ok() const noexcept { return failed.empty(); }
};

namespace detail {

inline PrebuildReport prebuild(kiln_engine* engine, const PrebuildRequest& request) {
  const std::vector<const char*> ops = c_texts(request.ops);
  const std::vector<const char*> targets = c_texts(request.targets);
  Callbacks callbacks(request.progress);
  kiln_prebuild_request c = sized<kiln_prebuild_request>();
  c.ops = ops.data();
  c.op_count = ops.size();
  c.targets = targets.data();
  c.target_count = targets.size();
  c.jobs = request.jobs;
  callbacks.set(c);
  kiln_prebuild_report done = sized<kiln_prebuild_report>();
  const kiln_status status = kiln_prebuild(engine, &c, &done);
  PrebuildReport report;
  report.failed = callbacks.finish(status);
  report.compiled = done.compiled;
  report.cached = done.cached;
  report.skipped = done.skipped;
  report.seconds = done.seconds;
  return report;
}

}  // namespace detail
}  // namespace abi0
}  // namespace kiln
