#include <atomic>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "tests/cpp_api/machine.hpp"

namespace kiln::test {
namespace {

/// An engine whose root is not usable, which a warning says.
EngineOptions with_a_warning(const DoorMachine& machine) {
  EngineOptions options = machine.options();
  std::ofstream(machine.path("file")) << "no directory\n";
  options.cache_root = machine.path("file");
  return options;
}

}  // namespace

TEST_CASE("Log lines go to the callback from their level on, also after the engine has moved") {
  DoorMachine machine;
  const ScaleCall call;
  EngineOptions options = with_a_warning(machine);
  std::atomic<int> lines{0};
  options.log.level = LogLevel::kWarning;
  options.log.callback = [&lines](LogLevel level, const char* line) {
    lines += level >= LogLevel::kWarning && *line != '\0' ? 1 : 1000;
  };
  Engine first = scale_engine(options);
  Engine second = std::move(first);
  error_of(ErrorCode::kCompilerUnavailable, [&] {
    second.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  });
  CHECK(lines > 0);
  CHECK(lines < 1000);
}

TEST_CASE("What a log callback throws is dropped") {
  DoorMachine machine;
  EngineOptions options = with_a_warning(machine);
  bool called = false;
  options.log.callback = [&called](LogLevel, const char*) {
    called = true;
    throw std::runtime_error("no log today");
  };
  const ScaleCall call;
  Engine engine = scale_engine(options);
  error_of(ErrorCode::kCompilerUnavailable, [&] {
    engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  });
  CHECK(called);
}

TEST_CASE("An option that cannot be used is refused, and there is no engine") {
  EngineOptions options;
  options.jit = static_cast<JitPolicy>(9);
  CHECK(contains(error_of(ErrorCode::kInvalidArgument, [&] { Engine engine(options); }), "jit"));
}

TEST_CASE("Policies and switches reach the engine") {
  DoorMachine machine;
  const ScaleCall call;
  EngineOptions options = machine.options();
  options.cache_root = machine.path("empty");
  options.jit = JitPolicy::kForbid;
  options.capture_misses = CaptureMisses::kError;
  Engine engine = scale_engine(options);
  error_of(ErrorCode::kCompileForbidden, [&] {
    engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  });
  const CUstream stream = machine.fake().make_stream(machine.enter());
  machine.fake().set_capturing(stream, true);
  error_of(ErrorCode::kNotLoaded, [&] {
    engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, stream);
  });
}

TEST_CASE("Counters tell of each cache layer") {
  DoorMachine machine;
  const ScaleCall call;
  EngineOptions options = machine.options();
  const std::string layer = options.cache_root;
  options.cache_root = machine.path("own");
  options.read_only_layers = {layer};
  Engine engine = scale_engine(options);
  engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  const Counters counters = engine.counters();
  CHECK(counters.compiles == 0);
  CHECK(counters.cache_hits == 1);
  CHECK(counters.libraries_loaded == 1);
  std::uint64_t hits = 0;
  for (const Counters::Layer& one : counters.cache_layers) {
    hits += one.path == layer ? one.hits : 0;
  }
  CHECK(hits == 1);
  kiln_cache_layer past = detail::sized<kiln_cache_layer>();
  CHECK(kiln_cache_layer_at(engine.handle(), counters.cache_layers.size(), &past) ==
        KILN_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("Ops are listed and described") {
  DoorMachine machine;
  const Engine engine = scale_engine(machine.options());
  const std::vector<std::string> names = engine.op_names();
  REQUIRE(names.size() > 1);
  CHECK(names.back() == "c_scale");
  const OpInfo info = engine.op_info("c_scale");
  CHECK(info.family == "own");
  CHECK(info.kernel_count == 1);
  CHECK(info.min_compute_capability == 90);
  REQUIRE(info.args.size() == 4);
  CHECK(info.args[1].name == "bias");
  CHECK(info.args[1].optional);
  CHECK(info.args[1].constant);
  CHECK(!info.args[2].is_tensor);
  CHECK(info.args[3].access == Access::kWrite);
  CHECK(contains(error_of(ErrorCode::kUnknownOp, [&] { engine.op_info("c_scal"); }), "c_scale"));
}

TEST_CASE("The device's targets come best first") {
  DoorMachine machine;
  const Engine engine(machine.options());
  const std::vector<std::string> targets = engine.device_targets();
  REQUIRE(targets.size() >= 2);
  CHECK(targets[0] == "sm_90a");
  CHECK(targets[1] == "sm_90");
}

TEST_CASE("The library says its version, and errors have names") {
  CHECK(library_version() == KILN_VERSION_NUMBER);
  CHECK(std::string(error_code_name(ErrorCode::kNotLoaded)) == "not_loaded");
}

}  // namespace kiln::test
