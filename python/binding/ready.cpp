// Warming up and prefetching.

#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/string.h>

#include <kiln/kiln.h>

#include "python/binding/arguments.hpp"
#include "python/binding/engine.hpp"
#include "python/binding/error.hpp"
#include "python/binding/exports.hpp"
#include "python/binding/json.hpp"

namespace kiln::python {
namespace {

namespace ffi = tvm::ffi;

class PrefetchObject : public ffi::Object {
 public:
  explicit PrefetchObject(kiln_prefetch* started) : prefetch(started) {}
  ~PrefetchObject() { kiln_prefetch_destroy(prefetch); }
  PrefetchObject(const PrefetchObject&) = delete;
  PrefetchObject& operator=(const PrefetchObject&) = delete;

  kiln_prefetch* prefetch;

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("kiln.Prefetch", PrefetchObject, ffi::Object);
};

class Prefetch : public ffi::ObjectRef {
 public:
  explicit Prefetch(kiln_prefetch* prefetch)
      : ObjectRef(ffi::make_object<PrefetchObject>(prefetch)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Prefetch, ffi::ObjectRef, PrefetchObject);
};

// The calls that are asked for, each as its op's name, a number, and so many arguments.
class Calls {
 public:
  Calls(const Use& use, const ffi::AnyView* args, int count) {
    for (int at = 0; at < count;) {
      ops_.push_back(args[at].cast<std::string>());
      const auto arguments = args[at + 1].cast<std::int32_t>();
      arguments_.push_back(arguments_of(use, ops_.back(), args + at + 2, arguments));
      at += 2 + arguments;
      calls_.push_back({ops_.back().c_str(), arguments_.back().data(), arguments_.back().size()});
    }
  }
  const std::vector<kiln_call>& calls() const noexcept { return calls_; }

 private:
  std::deque<std::string> ops_;  // Whose elements stay where they are.
  std::deque<Arguments> arguments_;
  std::vector<kiln_call> calls_;
};

struct Receivers {
  ffi::Function progress;
  Json failures = Json::array();
  std::exception_ptr raised = nullptr;
  std::optional<NoLines> python_raised = std::nullopt;
};

// Names go to Python as plain C strings: what the binding library does for its own, it does wrongly
// when a signal's handler raises meanwhile. The handlers get their turn before.
void tell_progress(std::size_t done, std::size_t total, const char* name, void* user) {
  auto& receivers = *static_cast<Receivers*>(user);
  if (receivers.raised) {
    return;
  }
  try {
    if (TVMFFIEnvCheckSignals() != 0) {
      receivers.python_raised.emplace();
      throw ffi::EnvErrorAlreadySet();
    }
    if (!receivers.progress(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total), name)
             .cast<bool>()) {
      throw ffi::Error("kiln.cancelled", "the progress receiver raised", "");
    }
  } catch (const std::exception&) {
    receivers.raised = std::current_exception();  // A callback of the C interface returns normally.
  }
}

std::int32_t is_stopped(void* user) {
  return static_cast<Receivers*>(user)->raised ? 1 : 0;
}

void keep_failure(const char* name, kiln_status status, const char* message, void* user) {
  static_cast<Receivers*>(user)->failures.push_back({{"name", name},
                                                     {"status", kiln_status_name(status)},
                                                     {"message", in_words_of_python(message)}});
}

template <class Request>
void listen(Request& request, Receivers& receivers) {
  request.progress = &tell_progress;
  request.stop = &is_stopped;
  request.failed = &keep_failure;
  request.user = &receivers;
}

// What the receivers raised, or what went wrong and was not told to them.
void judge(kiln_status status, const Receivers& receivers) {
  if (receivers.raised) {
    std::rethrow_exception(receivers.raised);
  }
  if (receivers.failures.empty()) {
    check(status);
  }
}

// engine, what is asked for as JSON, progress, calls. Goes on for as long as progress returns true.
// What became of it, as JSON; what could not be had is part of that.
void warmup(const ffi::PackedArgs& args, ffi::Any* result) {
  constexpr int kFirstCall = 3;
  Json asked = Json::parse(args[1].cast<std::string>());
  if (asked.at("manifest").is_string()) {
    restore_path(asked.at("manifest"));
  }
  const std::vector<const char*> ops = texts(asked.at("ops"));
  Receivers receivers{.progress = args[2].cast<ffi::Function>()};
  const auto engine = args[0].cast<Engine>();
  const Use use(engine);
  const Calls calls(use, args.data() + kFirstCall, args.size() - kFirstCall);
  kiln_warmup_request request = KILN_INIT(kiln_warmup_request);
  request.calls = calls.calls().data();
  request.call_count = calls.calls().size();
  request.ops = ops.data();
  request.op_count = ops.size();
  request.manifest = text(asked, "manifest");
  request.jobs = asked.at("jobs").get<std::int32_t>();
  listen(request, receivers);
  kiln_warmup_report report = KILN_INIT(kiln_warmup_report);
  judge(kiln_warmup(use.engine(), &request, &report), receivers);
  const Json json = {{"prepared", report.prepared}, {"failed", report.failed},
                     {"compiled", report.compiled}, {"loaded", report.loaded},
                     {"seconds", report.seconds},   {"failures", receivers.failures}};
  *result = ffi::String(json.dump());
}

// The same; all ops where none are named.
ffi::String prebuild(const Engine& engine, const ffi::String& described,
                     const ffi::Function& progress) {
  const Json asked = Json::parse(std::string(described));
  const std::vector<const char*> ops = texts(asked.at("ops"));
  const std::vector<const char*> targets = texts(asked.at("targets"));
  Receivers receivers{.progress = progress};
  kiln_prebuild_request request = KILN_INIT(kiln_prebuild_request);
  request.ops = ops.empty() ? nullptr : ops.data();
  request.op_count = ops.size();
  request.targets = targets.data();
  request.target_count = targets.size();
  request.jobs = asked.at("jobs").get<std::int32_t>();
  listen(request, receivers);
  kiln_prebuild_report report = KILN_INIT(kiln_prebuild_report);
  const Use use(engine);
  judge(kiln_prebuild(use.engine(), &request, &report), receivers);
  const Json json = {{"compiled", report.compiled}, {"cached", report.cached},
                     {"failed", report.failed},     {"skipped", report.skipped},
                     {"seconds", report.seconds},   {"failures", receivers.failures}};
  return json.dump();
}

// engine, op, arguments
void prefetch_start(const ffi::PackedArgs& args, ffi::Any* result) {
  const auto op = args[1].cast<std::string>();
  const auto engine = args[0].cast<Engine>();
  const Use use(engine);
  const Arguments given = arguments_of(use, op, args.data() + 2, args.size() - 2);
  kiln_prefetch* prefetch = nullptr;
  check(kiln_prefetch_start(use.engine(), op.c_str(), given.data(), given.size(), &prefetch));
  *result = Prefetch(prefetch);
}

bool prefetch_poll(const Prefetch& prefetch) {
  std::int32_t ready = 0;
  check(kiln_prefetch_poll(prefetch->prefetch, &ready));
  return ready != 0;
}

bool prefetch_wait(const Prefetch& prefetch, std::int64_t nanoseconds) {
  std::int32_t ready = 0;
  check(kiln_prefetch_wait(prefetch->prefetch, nanoseconds, &ready));
  return ready != 0;
}

}  // namespace
}  // namespace kiln::python

KILN_EXPORT_PACKED(warmup, kiln::python::warmup)
KILN_EXPORT_TYPED(prebuild, kiln::python::prebuild)
KILN_EXPORT_PACKED(prefetch_start, kiln::python::prefetch_start)
KILN_EXPORT_TYPED(prefetch_poll, kiln::python::prefetch_poll)
KILN_EXPORT_TYPED(prefetch_wait, kiln::python::prefetch_wait)
