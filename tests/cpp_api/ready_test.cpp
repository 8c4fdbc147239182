#include <chrono>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "tests/cpp_api/machine.hpp"

namespace kiln::test {
namespace {

/// Where nothing is to be found, and nothing may be compiled.
EngineOptions with_nothing(const DoorMachine& machine) {
  EngineOptions options = machine.options();
  options.cache_root = machine.path("empty");
  options.jit = JitPolicy::kForbid;
  return options;
}

}  // namespace

TEST_CASE("A warm-up makes ready what it can, and its report tells the rest") {
  DoorMachine machine;
  const ScaleCall call;
  Engine engine = scale_engine(machine.options());
  std::string told;
  WarmupRequest request;
  request.calls = {{"c_scale", {call.x, call.bias, 1.5, call.out}}, {"c_scale", {call.x}}};
  request.progress = [&told](std::size_t done, std::size_t total, const char* name) {
    told += std::to_string(done) + "/" + std::to_string(total) + " " + name + "\n";
  };
  const WarmupReport report = engine.warmup(request);
  CHECK(report.prepared == 1);
  CHECK(report.loaded == 1);
  CHECK(report.compiled == 0);
  REQUIRE(report.failed.size() == 1);
  CHECK(!report.ok());
  CHECK(report.failed[0].name == "c_scale");
  CHECK(report.failed[0].code == ErrorCode::kInvalidArgument);
  CHECK(!report.failed[0].message.empty());
  CHECK(contains(told, "c_scale"));
  request.calls.pop_back();
  CHECK(engine.warmup(request).ok());
  CHECK(engine.warmup({}).ok());
}

TEST_CASE("A request that is none throws") {
  DoorMachine machine;
  Engine engine = scale_engine(machine.options());
  WarmupRequest request;
  request.calls = {{"no_such_op", {}}};
  error_of(ErrorCode::kUnknownOp, [&] { engine.warmup(request); });
  request.calls.clear();
  request.manifest = machine.path("no-manifest.json");
  error_of(ErrorCode::kIo, [&] { engine.warmup(request); });
}

TEST_CASE("What a progress callback throws ends the warm-up and comes out of it") {
  DoorMachine machine;
  const ScaleCall call;
  Engine engine = scale_engine(machine.options());
  struct Enough {};
  int told = 0;
  WarmupRequest request;
  request.calls = {{"c_scale", {call.x, call.bias, 1.5, call.out}},
                   {"c_scale", {call.x, {}, 1.5, call.out}},
                   {"c_scale", {call.x, {}, 2, call.out}}};
  request.progress = [&told](std::size_t, std::size_t, const char*) {
    ++told;
    throw Enough();
  };
  CHECK_THROWS_AS(engine.warmup(request), Enough);
  CHECK(told == 1);
  engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
}

TEST_CASE("A manifest that an engine has recorded warms up another") {
  DoorMachine machine;
  const ScaleCall call;
  const std::string manifest = machine.path("manifest.json");
  {
    EngineOptions options = machine.options();
    options.record = manifest;
    Engine engine = scale_engine(options);
    engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  }
  Engine engine = scale_engine(machine.options());
  WarmupRequest request;
  request.manifest = manifest;
  const WarmupReport report = engine.warmup(request);
  CHECK(report.ok());
  CHECK(report.prepared == 1);
  const std::uint64_t loaded = engine.counters().libraries_loaded;
  engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  CHECK(engine.counters().libraries_loaded == loaded);
}

TEST_CASE("A warm-up takes whole ops") {
  DoorMachine machine;
  machine.plant_for("sm_90a");
  const ScaleCall call;
  Engine engine = scale_engine(machine.options());
  OpSpec later = scale_op();
  later.name = "later";
  later.min_compute_capability = 100;
  engine.register_op(later);
  WarmupRequest request;
  request.ops = {"c_scale", "later"};
  const WarmupReport report = engine.warmup(request);
  CHECK(report.prepared == 2);  // With PDL and without.
  REQUIRE(report.failed.size() == 1);
  CHECK(report.failed[0].name == "later");
  CHECK(report.failed[0].code == ErrorCode::kUnsupportedTarget);
  const std::uint64_t loaded = engine.counters().libraries_loaded;
  engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  CHECK(engine.counters().libraries_loaded == loaded);
}

TEST_CASE("A prebuild makes every kernel of an op, and says what it cannot make") {
  DoorMachine machine;
  Engine engine = scale_engine(machine.options());
  PrebuildRequest request;
  request.targets = {"sm_90"};
  request.ops = {"c_sc*"};
  int told = 0;
  request.progress = [&told](std::size_t, std::size_t, const char*) { ++told; };
  const PrebuildReport there = engine.prebuild(request);
  CHECK(there.ok());
  CHECK(there.cached == 2);  // With PDL and without.
  CHECK(there.compiled == 0);
  CHECK(told == 2);

  Engine empty = scale_engine(with_nothing(machine));
  const PrebuildReport none = empty.prebuild(request);
  REQUIRE(none.failed.size() == 2);
  CHECK(contains(none.failed[0].name, "c_scale"));
  CHECK(none.failed[0].code == ErrorCode::kCompileForbidden);
  request.progress = [](std::size_t, std::size_t, const char*) { throw std::runtime_error("no"); };
  CHECK_THROWS_AS(engine.prebuild(request), std::runtime_error);
}

TEST_CASE("A prebuild of nothing throws, and says why there is nothing") {
  DoorMachine machine;
  Engine engine = scale_engine(machine.options());
  PrebuildRequest request;
  error_of(ErrorCode::kInvalidArgument, [&] { engine.prebuild(request); });
  request.targets = {"sm_80"};
  request.ops = {"c_scale"};
  CHECK(contains(error_of(ErrorCode::kUnsupportedTarget, [&] { engine.prebuild(request); }),
                 "c_scale for sm_80"));
  request.targets = {"h200"};
  error_of(ErrorCode::kUnsupportedTarget, [&] { engine.prebuild(request); });
}

TEST_CASE("A prefetch is there when it is waited for, also once its engine is gone") {
  DoorMachine machine;
  const ScaleCall call;
  auto engine = std::make_unique<Engine>(machine.options());
  engine->register_op(scale_op());
  const Prefetch prefetch = engine->prefetch("c_scale", {call.x, call.bias, 1.5, call.out});
  prefetch.get();
  CHECK(prefetch.ready());
  CHECK(prefetch.wait_for(std::chrono::nanoseconds::max()));
  CHECK(prefetch.wait_for(std::chrono::seconds(-1)));
  engine.reset();
  prefetch.wait();
  prefetch.get();
}

TEST_CASE("A prefetch that fails throws from get, and from nothing else") {
  DoorMachine machine;
  const ScaleCall call;
  Engine engine = scale_engine(with_nothing(machine));
  const Prefetch prefetch = engine.prefetch("c_scale", {call.x, call.bias, 1.5, call.out});
  prefetch.wait();
  CHECK(prefetch.ready());
  CHECK(prefetch.wait_for(std::chrono::seconds(1)));
  error_of(ErrorCode::kCompileForbidden, [&] { prefetch.get(); });
  error_of(ErrorCode::kInvalidArgument, [&] { engine.prefetch("c_scale", {call.x}); });
  engine.forget_compile_failures();
}

}  // namespace kiln::test
