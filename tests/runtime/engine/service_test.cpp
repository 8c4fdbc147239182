// Compiling as a service, with a real NVRTC in worker processes and the fake driver.

#include <algorithm>
#include <atomic>
#include <barrier>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>

#include <nlohmann/json.hpp>
#include <signal.h>

#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/runtime/engine/compile_support.hpp"
#include "tests/support/tiny_op.hpp"

namespace kiln::test {
namespace {

using Json = nlohmann::json;

const Target kSm90a = parse_target("sm_90a");

// An engine whose log holds warnings, with the scale op.
Engine scale_engine(const EngineOptions& options) {
  Engine engine(options);
  engine.register_op(scale_op());
  return engine;
}

Engine tiny_engine(const EngineOptions& options, int kernels) {
  Engine engine(options);
  engine.register_op(tiny_op(kernels));
  return engine;
}

EngineOptions with_policy(EngineOptions options, JitPolicy policy) {
  options.jit = policy;
  return options;
}

// An op whose kernels do not compile.
Op broken_op() {
  Op op = scale_op();
  op.sources[0].text += "int broken = undeclared_name;\n";
  return op;
}

std::vector<cache::Entry> stored(const std::string& root) {
  cache::test::LogLines log;
  cache::Store store(cache::test::options_at(root, log));
  std::vector<cache::Entry> entries;
  for (const cache::ListedEntry& listed : store.list()) {
    entries.push_back(value_or_throw(store.read(listed)));
  }
  return entries;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE(
    "Where compiling is forbidden, a miss names the kernel and how to provide it (field reports "
    "107 and 110)") {
  CompilingMachine machine;
  machine.enter();
  Engine engine = scale_engine(with_policy(machine.options(), JitPolicy::kForbid));
  const std::string message =
      error_of(ErrorCode::kCompileForbidden, [&] { ScaleCall().launch(engine); });
  CHECK(contains(message, "scale ROWS=1 PDL=true sm_90a"));
  CHECK(contains(message,
                 "kiln prebuild --op scale --arch sm_90a --cache '" + machine.cache_root() + "'"));
  CHECK(contains(message, "KILN_JIT"));
  CHECK(engine.counters().compiles == 0);
  CHECK_FALSE(engine.impl().provider().source().toolchain());
  CHECK(engine.impl().provider().source().workers().empty());
  CHECK(machine.fake().launches().empty());

  const WarmupReport report =
      engine.warmup({.calls = {},
                     .variants = engine.variants(engine.op("scale"), kSm90a),
                     .jobs = 0,
                     .progress = {}});
  REQUIRE(report.failed.size() == 4);  // All that would have been compiled, not only the first.
  for (const WarmupReport::Failed& failed : report.failed) {
    CHECK(failed.code == ErrorCode::kCompileForbidden);
  }
}

TEST_CASE("Where compiling is forbidden, any toolchain's entry of the root will do") {
  ScaleMachine machine({.toolchain_major = 12, .toolchain_minor = 8});
  Engine engine = machine.engine(with_policy(machine.options(), JitPolicy::kForbid));
  ScaleCall().launch(engine);
  CHECK(machine.fake().launches().size() == 1);
}

TEST_CASE("Under the warning policy a miss is compiled and named, once") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  Engine engine = scale_engine(with_policy(machine.options(), JitPolicy::kWarn));
  ScaleCall(3).launch(engine);
  ScaleCall(2).launch(engine);
  CHECK(engine.counters().compiles == 1);
  CHECK(machine.log().lines().size() == 1);
  CHECK(machine.log().count_with("scale ROWS=1 PDL=true sm_90a") == 1);
}

TEST_CASE("A hundred calls of a kernel that cannot compile are one compile (field report 111)") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  Engine engine(machine.options());
  engine.register_op(broken_op());
  std::set<std::string> messages;
  for (int i = 0; i < 100; ++i) {
    messages.insert(error_of(ErrorCode::kCompileFailed, [&] { ScaleCall().launch(engine); }));
  }
  CHECK(messages.size() == 1);
  CHECK(contains(*messages.begin(), "undeclared_name"));
  CHECK(engine.counters().compiles == 1);

  engine.forget_compile_failures();
  CHECK_THROWS_AS(ScaleCall().launch(engine), Error);
  CHECK(engine.counters().compiles == 2);
}

TEST_CASE("Sixty-four threads that ask for ten kernels cause ten compiles") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  constexpr int kThreads = 64;
  constexpr std::size_t kKernels = 10;
  Engine engine = tiny_engine(machine.options(), kKernels);
  const std::vector<Variant> variants = engine.variants(engine.op("tiny"), kSm90a);
  std::atomic<int> good{0};
  {
    std::barrier start(kThreads);
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        for (std::size_t i = 0; i < kKernels; ++i) {
          good += engine.compile(variants[(t + i) % kKernels]).cubin_bytes > 0 ? 1 : 0;
        }
      });
    }
  }
  CHECK(good == kThreads * static_cast<int>(kKernels));
  CHECK(engine.counters().compiles == kKernels);
  CHECK(engine.counters().cache_publishes == kKernels);
}

TEST_CASE("Threads that launch what cannot compile all get its error, from one compile") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  CUcontext context = machine.enter();
  Engine engine(machine.options());
  engine.register_op(broken_op());
  std::atomic<int> failed{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        machine.fake().set_current(context);
        try {
          ScaleCall().launch(engine);
        } catch (const Error& error) {
          failed += error.code() == ErrorCode::kCompileFailed ? 1 : 0;
        }
      });
    }
  }
  CHECK(failed == 8);
  CHECK(engine.counters().compiles == 1);
}

TEST_CASE("A prefetch compiles in the background, and the call then finds its kernel") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  Engine engine = scale_engine(machine.options());
  const Tensor x(nullptr, DType::kF32, {3, 64});  // Pointers do not count.
  const Tensor bias(nullptr, DType::kF32, {64});
  const Tensor out(nullptr, DType::kF32, {3, 64});
  const Prefetch pending = engine.prefetch("scale", {x, bias, 1.5, out});
  pending.get();
  CHECK(pending.ready());
  CHECK(engine.counters().compiles == 1);
  CHECK(engine.counters().libraries_loaded == 0);
  ScaleCall(3).launch(engine);
  CHECK(engine.counters().compiles == 1);

  const Tensor wrong(nullptr, DType::kF32, {3, 65});
  CHECK(contains(error_of(ErrorCode::kInvalidArgument,
                          [&] {
                            engine.prefetch("scale", {x, bias, 1.5, wrong});
                          }),
                 "out"));
}

TEST_CASE("A prefetch gives the error of its compile, and one that never began says so") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  std::optional<Engine> engine(std::in_place, machine.options());
  engine->register_op(broken_op());
  const auto variants = engine->variants(engine->op("scale"), kSm90a);
  const Prefetch pending = engine->prefetch(variants[0]);
  error_of(ErrorCode::kCompileFailed, [&] { pending.get(); });

  EngineOptions options = machine.options();
  options.compile_jobs = 1;
  engine.emplace(options);
  engine->register_op(tiny_op(20));
  std::vector<Prefetch> queue;
  for (const Variant& variant : engine->variants(engine->op("tiny"), kSm90a)) {
    queue.push_back(engine->prefetch(variant));
  }
  engine.reset();
  for (const Prefetch& each : queue) {
    REQUIRE(each.ready());
  }
  CHECK(contains(error_of(ErrorCode::kCancelled, [&] { queue.back().get(); }), "engine"));
}

TEST_CASE(
    "After a warm-up no call on its list compiles or loads (field reports 109, 120 and 123)") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  Engine engine = scale_engine(machine.options());
  engine.register_op(tiny_op(16));
  const ScaleCall small(3);
  const ScaleCall large(8);
  const OpHandle scale = engine.op("scale");
  WarmupRequest request;
  request.calls = {{scale, {small.x, small.bias, 1.0, small.out}},
                   {scale, {large.x, large.bias, 1.0, large.out}}};
  request.variants = engine.variants(engine.op("tiny"), kSm90a);
  std::vector<std::size_t> steps;
  request.progress = [&](std::size_t done, std::size_t total, const std::string&) {
    steps.push_back(done);
    CHECK(total == 18 + 18);  // Each is compiled, then loaded.
  };
  const WarmupReport report = engine.warmup(request);
  CHECK(report.ok());
  CHECK(report.prepared == 18);
  CHECK(report.compiled == 18);
  CHECK(report.loaded == 4);  // The scale kernels, and two images of eight kernels.
  CHECK(steps.size() == 36);
  CHECK(machine.fake().count("cuFuncLoad") == 18);

  const Counters before = engine.counters();
  const auto loads = machine.fake().count("cuLibraryLoadData");
  small.launch(engine);
  large.launch(engine);
  for (int i = 0; i < 5; ++i) {
    small.launch(engine);
  }
  for (const Variant& variant : request.variants) {
    CHECK(engine.compile(variant).from_cache);
  }
  CHECK(engine.counters().compiles == before.compiles);
  CHECK(engine.counters().libraries_loaded == before.libraries_loaded);
  CHECK(machine.fake().count("cuLibraryLoadData") == loads);
  CHECK(machine.fake().launches().size() == 7);
  unsetenv("CUDA_MODULE_LOADING");
}

TEST_CASE(
    "A warm-up of a thousand stored kernels loads each once and compiles none (field report 115)") {
  Machine machine;
  machine.enter();
  Engine engine = tiny_engine(machine.options(), 1000);
  cache::StoreOptions options;
  options.root.option = machine.cache_root();
  options.file_system = std::make_shared<cache::test::FaultyFileSystem>();
  std::static_pointer_cast<cache::test::FaultyFileSystem>(options.file_system)->skip_sync();
  cache::Store store(options);
  WarmupRequest request;
  request.variants = engine.variants(engine.op("tiny"), kSm90a);
  for (const Variant& variant : request.variants) {
    REQUIRE(store.publish(planted_entry(variant)));
  }
  const WarmupReport report = engine.warmup(request);
  CHECK(report.ok());
  CHECK(report.prepared == 1000);
  CHECK(report.compiled == 0);
  CHECK(report.loaded == 1000);
  const std::uint64_t lookups = engine.counters().cache_hits;
  CHECK(engine.warmup(request).loaded == 0);
  CHECK(lookups == 1000);  // Each was read once.
  CHECK(engine.counters().cache_hits == lookups);
}

TEST_CASE("A warm-up reports what it cannot have and prepares the rest") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  Engine engine = scale_engine(machine.options());
  Op broken = broken_op();
  broken.name = "broken";
  engine.register_op(broken);
  const ScaleCall call(3);
  const ScaleCall other(3, 32);
  WarmupRequest request;
  request.calls = {{engine.op("broken"), {call.x, call.bias, 1.0, call.out}},
                   {engine.op("scale"), {call.x, other.bias, 1.0, call.out}},
                   {engine.op("scale"), {call.x, call.bias, 1.0, call.out}}};
  const WarmupReport report = engine.warmup(request);
  CHECK_FALSE(report.ok());
  CHECK(report.prepared == 1);
  REQUIRE(report.failed.size() == 2);
  CHECK(report.failed[0].code == ErrorCode::kInvalidArgument);
  CHECK(report.failed[1].code == ErrorCode::kCompileFailed);
  CHECK(contains(report.failed[1].message, "undeclared_name"));
}

TEST_CASE("Kernels of a group share one image, each in a file of its own") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  PrebuildRequest request;
  request.targets = {kSm90a};
  request.ops = {"tiny"};
  CHECK(tiny_engine(machine.options(), 8).prebuild(request).compiled == 8);
  const std::vector<cache::Entry> entries = stored(machine.cache_root());
  REQUIRE(entries.size() == 8);
  std::set<std::string> symbols;
  for (const cache::Entry& entry : entries) {
    symbols.insert(entry.symbol);
    CHECK(entry.image == entries[0].image);
    CHECK(entry.members == entries[0].members);
    CHECK(std::find(entry.members.begin(), entry.members.end(), entry.source.digest.hex()) !=
          entry.members.end());
    CHECK(entry.resources.registers > 0);
  }
  CHECK(symbols.size() == 8);

  // Damage to one file is damage to one kernel.
  std::string first;
  for (const auto& file : std::filesystem::recursive_directory_iterator(machine.cache_root())) {
    if (file.path().extension() == ".cubin") {
      CHECK(std::filesystem::hard_link_count(file.path()) == 1);
      first = file.path().string();
    }
  }
  std::filesystem::resize_file(first, 100);
  const PrebuildReport again = tiny_engine(machine.options(), 8).prebuild(request);
  CHECK(again.ok());
  CHECK(again.cached == 7);
  CHECK(again.compiled == 1);
}

TEST_CASE("A part of a group is compiled one by one, and its bytes do not depend on the rest") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  Engine engine = tiny_engine(machine.options(), 8);
  const std::vector<Variant> variants = engine.variants(engine.op("tiny"), kSm90a);
  PrebuildRequest request;
  request.variants = {variants[2], variants[5], variants[2]};
  CHECK(engine.prebuild(request).compiled == 2);
  for (const cache::Entry& entry : stored(machine.cache_root())) {
    CHECK(entry.members.empty());
  }
  CHECK(engine.counters().compiles == 2);
}

TEST_CASE("A check of a cache compiles nothing and names what is missing") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  Engine engine = tiny_engine(machine.options(), 4);
  const std::vector<Variant> variants = engine.variants(engine.op("tiny"), kSm90a);
  engine.compile(variants[1]);
  PrebuildRequest request;
  request.targets = {kSm90a};
  request.ops = {"tiny"};
  request.check = true;
  const PrebuildReport report = tiny_engine(machine.options(), 4).prebuild(request);
  CHECK_FALSE(report.ok());
  CHECK(report.cached == 1);
  CHECK(report.missing == std::vector<std::string>{to_string(variants[0]), to_string(variants[2]),
                                                   to_string(variants[3])});
  CHECK(report.failed.empty());
  CHECK(stored(machine.cache_root()).size() == 1);
}

TEST_CASE("A prebuild that is stopped keeps what is done, and the engine goes on compiling") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  Engine engine = tiny_engine(machine.options(), 64);
  std::stop_source stop;
  PrebuildRequest request;
  request.targets = {kSm90a};
  request.ops = {"tiny"};
  request.jobs = 1;
  request.stop = stop.get_token();
  request.progress = [&](std::size_t, std::size_t, const KernelInfo&) { stop.request_stop(); };
  const PrebuildReport report = engine.prebuild(request);
  CHECK_FALSE(report.ok());
  CHECK(report.failed.empty());
  CHECK(report.compiled == 8);
  CHECK(report.stopped == 56);
  CHECK(stored(machine.cache_root()).size() == 8);
  request.stop = {};
  request.progress = {};
  const PrebuildReport rest = engine.prebuild(request);
  CHECK(rest.ok());
  CHECK(rest.cached == 8);
  CHECK(rest.compiled == 56);
}

TEST_CASE("A recording engine writes down what it launched, and not what it warmed up") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  EngineOptions options = machine.options();
  options.record = machine.dir().str("used.json");
  {
    Engine engine = scale_engine(options);
    engine.warmup({.calls = {},
                   .variants = engine.variants(engine.op("scale"), kSm90a),
                   .jobs = 0,
                   .progress = {}});
    CHECK_FALSE(std::filesystem::exists(options.record));
    ScaleCall(8).launch(engine);
    ScaleCall(8).launch(engine);
    ScaleCall(9).launch(engine);
  }
  const Json manifest = Json::parse(text_of(options.record));
  REQUIRE(manifest["variants"].size() == 1);
  CHECK(manifest["variants"][0]["op"] == "scale");
  CHECK(manifest["variants"][0]["traits"]["ROWS"] == "2");

  Engine engine = scale_engine(machine.options());
  const std::vector<Variant> variants = engine.read_manifest(options.record);
  REQUIRE(variants.size() == 1);
  CHECK(to_string(variants[0]) == "scale ROWS=2 PDL=true sm_90a");
  CHECK(contains(error_of(ErrorCode::kIo, [&] { engine.read_manifest("/no/such/file"); }),
                 "/no/such/file"));
}

TEST_CASE("A traced engine writes its compiles, cache lookups and loads") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  EngineOptions options = machine.options();
  options.trace = machine.dir().str("trace.json");
  {
    Engine engine = scale_engine(options);
    ScaleCall().launch(engine);
  }
  std::string text = text_of(options.trace);
  text.resize(text.find_last_of(','));
  const Json events = Json::parse(text + "]");
  const auto count = [&](const char* category) {
    return std::count_if(events.begin(), events.end(), [&](const Json& event) {
      return event.value("cat", "") == category &&
             event.value("name", "") == "scale ROWS=1 PDL=true sm_90a";
    });
  };
  CHECK(count("compile") == 1);
  CHECK(count("load") == 1);
  CHECK(count("cache") >= 1);
}

TEST_CASE("Without a worker executable compiles run in the engine, with one warning") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  EngineOptions options = machine.options();
  options.compile_worker = machine.dir().str("no-such-worker");
  Engine engine = tiny_engine(options, 2);
  for (const Variant& variant : engine.variants(engine.op("tiny"), kSm90a)) {
    CHECK_FALSE(engine.compile(variant).from_cache);
  }
  CHECK(machine.log().lines().size() == 1);
  CHECK(machine.log().count_with("no-such-worker") == 1);

  options.compile_in_process = true;
  machine.log();
  Engine quiet = tiny_engine(options, 2);
  quiet.compile(quiet.variants(quiet.op("tiny"), parse_target("sm_90"))[0]);
  CHECK(machine.log().lines().size() == 1);
}

TEST_CASE("Compiles leave no worker behind when their engine is gone") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  std::vector<pid_t> workers;
  {
    Engine engine = tiny_engine(machine.options(), 1);
    engine.compile(engine.variants(engine.op("tiny"), kSm90a)[0]);
    workers = engine.impl().provider().source().workers();
    CHECK(workers.size() == 1);
  }
  for (const pid_t worker : workers) {
    CHECK(::kill(worker, 0) != 0);
  }
}

}  // namespace kiln::test
