// Compiling ahead.

#include <string>
#include <vector>

#include <fmt/format.h>

#include "c_api/callbacks.hpp"
#include "c_api/guard.hpp"
#include "c_api/handles.hpp"
#include "c_api/sized.hpp"

namespace kiln::c_api {
namespace {

PrebuildRequest prebuild_request(const kiln_prebuild_request& given) {
  PrebuildRequest request;
  require_array(given.ops, given.op_count, "request->ops");
  for (std::size_t i = 0; i < given.op_count; ++i) {
    request.ops.emplace_back(&required(given.ops[i], "request->ops[]"));
  }
  require_array(given.targets, given.target_count, "request->targets");
  for (std::size_t i = 0; i < given.target_count; ++i) {
    request.targets.push_back(parse_target(&required(given.targets[i], "request->targets[]")));
  }
  request.jobs = given.jobs;
  if (wants_progress(given)) {
    request.progress = [&given](std::size_t done, std::size_t total, const KernelInfo& kernel) {
      tell_progress(given, done, total, kernel.name);
    };
  }
  return request;
}

kiln_prebuild_report prebuild_report(const PrebuildReport& report) {
  return {.struct_size = sizeof(kiln_prebuild_report),
          .compiled = report.compiled,
          .cached = report.cached,
          .failed = report.failed.size(),
          .skipped = report.skipped.size(),
          .seconds = report.seconds};
}

void require_success(const PrebuildReport& report) {
  if (!report.failed.empty()) {
    const PrebuildReport::Failed& first = report.failed.front();
    throw Error(first.code, fmt::format("prebuild: {} of {} cannot be had; the first: {}: {}",
                                        report.failed.size(),
                                        report.failed.size() + report.compiled + report.cached,
                                        first.kernel, first.message));
  }
  if (report.kernels.empty()) {
    std::string why = "there is no op";
    if (!report.skipped.empty()) {
      const PrebuildReport::Skipped& first = report.skipped.front();
      why = fmt::format("{}{}{}: {}", first.op, first.target.empty() ? "" : " for ", first.target,
                        first.reason);
    }
    throw Error(ErrorCode::kUnsupportedTarget, "prebuild: there is nothing to be made; " + why);
  }
}

}  // namespace
}  // namespace kiln::c_api

kiln_status kiln_prebuild(kiln_engine* engine, const kiln_prebuild_request* request,
                          kiln_prebuild_report* report) {
  using namespace kiln::c_api;
  return guard([&] {
    kiln::Engine& made = required(engine, "engine").engine;
    const kiln_prebuild_request given = read_sized(&required(request, "request"), "request");
    require_zero(given.reserved, "request->reserved");
    if (report != nullptr) {
      checked_size(report, "report");
    }
    const kiln::PrebuildReport done = made.prebuild(prebuild_request(given));
    if (report != nullptr) {
      write_sized(prebuild_report(done), report, "report");
    }
    for (const kiln::PrebuildReport::Failed& one : done.failed) {
      tell_failure(given, one.kernel, one.code, one.message);
    }
    require_success(done);
  });
}
