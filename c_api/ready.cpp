// Warm-ups, prefetches, and unloading.

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "c_api/arguments.hpp"
#include "c_api/callbacks.hpp"
#include "c_api/guard.hpp"
#include "c_api/handles.hpp"
#include "c_api/sized.hpp"

namespace kiln::c_api {
namespace {

std::vector<CallShape> call_shapes(Engine& engine, const kiln_warmup_request& given) {
  require_array(given.calls, given.call_count, "request->calls");
  std::vector<CallShape> calls;
  for (std::size_t i = 0; i < given.call_count; ++i) {
    const kiln_call& call = given.calls[i];
    const OpHandle op = engine.op(&required(call.op, "request->calls[].op"));
    const Arguments all = arguments(op.op(), call.args, call.arg_count);
    calls.push_back({op, {all.span().begin(), all.span().end()}});
  }
  return calls;
}

// Of the file's variants, those that the current context's device runs.
std::vector<Variant> variants_of(Engine& engine, const std::string& manifest) {
  std::vector<Variant> variants = engine.read_manifest(manifest);
  const std::vector<Target> targets = engine.device_targets();
  std::erase_if(variants, [&](const Variant& variant) {
    return std::find(targets.begin(), targets.end(), variant.target) == targets.end();
  });
  return variants;
}

// Every kernel of the ops that the request names, and as failures the ops that have none here.
void add_ops(Engine& engine, const kiln_warmup_request& given, WarmupRequest& request,
             std::vector<WarmupReport::Failed>& unserved) {
  require_array(given.ops, given.op_count, "request->ops");
  if (given.op_count == 0) {
    return;
  }
  const Target target = engine.device_targets().front();
  for (std::size_t i = 0; i < given.op_count; ++i) {
    const OpHandle op = engine.op(&required(given.ops[i], "request->ops[]"));
    try {
      const std::vector<Variant> all = engine.variants(op, target);
      request.variants.insert(request.variants.end(), all.begin(), all.end());
    } catch (const Error& error) {
      unserved.push_back({op.op().name, error.code(), error.what()});
    }
  }
}

WarmupReport warm_up(Engine& engine, const kiln_warmup_request& given) {
  WarmupRequest request;
  request.calls = call_shapes(engine, given);
  if (given.manifest != nullptr) {
    request.variants = variants_of(engine, given.manifest);
  }
  std::vector<WarmupReport::Failed> unserved;
  add_ops(engine, given, request, unserved);
  request.jobs = given.jobs;
  if (wants_progress(given)) {
    request.progress = [&given](std::size_t done, std::size_t total, const std::string& name) {
      tell_progress(given, done, total, name);
    };
  }
  WarmupReport report = engine.warmup(request);
  report.failed.insert(report.failed.end(), unserved.begin(), unserved.end());
  return report;
}

kiln_warmup_report warmup_report(const WarmupReport& report) {
  return {.struct_size = sizeof(kiln_warmup_report),
          .prepared = report.prepared,
          .failed = report.failed.size(),
          .compiled = report.compiled,
          .loaded = report.loaded,
          .seconds = report.seconds};
}

}  // namespace
}  // namespace kiln::c_api

using namespace kiln::c_api;

kiln_status kiln_warmup(kiln_engine* engine, const kiln_warmup_request* request,
                        kiln_warmup_report* report) {
  return guard([&] {
    kiln::Engine& made = required(engine, "engine").engine;
    const kiln_warmup_request given = read_sized(&required(request, "request"), "request");
    require_zero(given.reserved, "request->reserved");
    if (report != nullptr) {
      checked_size(report, "report");
    }
    const kiln::WarmupReport done = warm_up(made, given);
    if (report != nullptr) {
      write_sized(warmup_report(done), report, "report");
    }
    for (const kiln::WarmupReport::Failed& one : done.failed) {
      tell_failure(given, one.name, one.code, one.message);
    }
    if (!done.ok()) {
      const kiln::WarmupReport::Failed& first = done.failed.front();
      throw kiln::Error(
          first.code,
          fmt::format("warm-up: {} of {} cannot be had; the first: {}: {}", done.failed.size(),
                      done.failed.size() + done.prepared, first.name, first.message));
    }
  });
}

kiln_status kiln_prefetch_start(kiln_engine* engine, const char* op, const kiln_arg* args,
                                size_t arg_count, kiln_prefetch** prefetch) {
  return guard([&] {
    kiln::Engine& made = required(engine, "engine").engine;
    kiln_prefetch*& started = required(prefetch, "prefetch");
    const kiln::OpHandle handle = made.op(&required(op, "op"));
    started =
        new kiln_prefetch{made.prefetch(handle, arguments(handle.op(), args, arg_count).span())};
  });
}

kiln_status kiln_prefetch_poll(const kiln_prefetch* prefetch, int32_t* ready) {
  return guard(
      [&] { required(ready, "ready") = required(prefetch, "prefetch").prefetch.ready() ? 1 : 0; });
}

kiln_status kiln_prefetch_wait(const kiln_prefetch* prefetch, int64_t timeout_nanoseconds,
                               int32_t* ready) {
  return guard([&] {
    const kiln::Prefetch& started = required(prefetch, "prefetch").prefetch;
    if (timeout_nanoseconds < 0) {
      started.wait();
    } else {
      // Beyond what a clock can be asked for, it is as good as for ever.
      const std::chrono::nanoseconds most = std::chrono::hours(24 * 365);
      started.wait_for(std::min(std::chrono::nanoseconds(timeout_nanoseconds), most));
    }
    const bool finished = started.ready();
    if (ready != nullptr) {
      *ready = finished ? 1 : 0;
    }
    if (finished) {
      started.get();
    }
  });
}

void kiln_prefetch_destroy(kiln_prefetch* prefetch) {
  delete prefetch;
}

kiln_status kiln_unload(kiln_engine* engine, const kiln_stream* streams, size_t stream_count,
                        size_t* unloaded) {
  return guard([&] {
    kiln::Engine& made = required(engine, "engine").engine;
    require_array(streams, stream_count, "streams");
    const std::size_t libraries = made.unload({streams, stream_count});
    if (unloaded != nullptr) {
      *unloaded = libraries;
    }
  });
}

kiln_status kiln_forget_compile_failures(kiln_engine* engine) {
  return guard([&] { required(engine, "engine").engine.forget_compile_failures(); });
}
