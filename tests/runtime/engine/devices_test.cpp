#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {
namespace {

/// An H200 and a B200, and the scale op planted for each.
struct MixedMachine : Machine {
  MixedMachine() : engine(options()) {
    fake().set_devices({{.major = 9, .minor = 0}, {.name = "Fake B200", .major = 10}});
    fake().describe_kernel("scale_symbol", scale_param_bytes());
    engine.register_op(scale_op());
    plant(engine, "scale", "sm_90a", cache_root());
    plant(engine, "scale", "sm_100a", cache_root());
  }
  Engine engine;
};

}  // namespace

TEST_CASE("Each device of a mixed machine gets its own cubin and its own function") {
  MixedMachine machine;
  Engine& engine = machine.engine;
  CUcontext first = machine.enter(0);
  ScaleCall(3, 64, 0).launch(engine);
  CUcontext second = machine.enter(1);
  ScaleCall(3, 64, 1).launch(engine);
  // Warm calls need no context switch: the function knows its own.
  ScaleCall(3, 64, 0).launch(engine);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 3);
  CHECK(contains(launches[0].image, "sm_90a"));
  CHECK(launches[0].context == first);
  CHECK(contains(launches[1].image, "sm_100a"));
  CHECK(launches[1].context == second);
  CHECK(launches[2].context == first);
}

TEST_CASE("A warm-up is for the device of the current context, whatever else the machine has") {
  MixedMachine machine;
  Engine& engine = machine.engine;
  const auto warm_up = [&](const ScaleCall& call) {
    WarmupRequest request;
    request.calls = {{engine.op("scale"), {call.x, call.bias, 1.0, call.out}}};
    return engine.warmup(request);
  };
  const ScaleCall on_first(3, 64, 0);
  const ScaleCall on_second(3, 64, 1);

  CUcontext first = machine.enter(0);
  CHECK(warm_up(on_first).loaded == 1);
  // The other device's call is none for this context, and says so; nothing is loaded for it.
  const WarmupReport astray = warm_up(on_second);
  REQUIRE(astray.failed.size() == 1);
  CHECK(contains(astray.failed[0].message, "make a context of device 1 current first"));
  CHECK(astray.loaded == 0);
  CUcontext second = machine.enter(1);
  CHECK(warm_up(on_second).loaded == 1);
  CHECK(warm_up(on_second).loaded == 0);
  CHECK(machine.fake().count("cuLibraryLoadData") == 2);

  on_second.launch(engine);
  machine.fake().set_current(first);
  on_first.launch(engine);
  CHECK(machine.fake().count("cuLibraryLoadData") == 2);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 2);
  CHECK(contains(launches[0].image, "sm_100a"));
  CHECK(launches[0].context == second);
  CHECK(contains(launches[1].image, "sm_90a"));
  CHECK(launches[1].context == first);
}

TEST_CASE("Two devices of one kind share the library and have a function each") {
  Machine machine;
  machine.fake().set_devices({{}, {}});
  Engine engine(machine.options());
  engine.register_op(scale_op());
  plant(engine, "scale", "sm_90", machine.cache_root());
  machine.enter(0);
  ScaleCall(3, 64, 0).launch(engine);
  CUcontext second = machine.enter(1);
  ScaleCall(3, 64, 1).launch(engine);
  CHECK(machine.fake().count("cuLibraryLoadData") == 1);
  CHECK(machine.fake().count("cuKernelGetFunction") == 2);
  CHECK(machine.fake().launches().at(1).context == second);
}

TEST_CASE("An engine serves one context per device and says so when another one comes") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall(3).launch(engine);
  CUcontext other = machine.enter(0);
  const std::string message =
      error_of(ErrorCode::kInvalidArgument, [&] { ScaleCall(7).launch(engine); });
  CHECK(contains(message, "an engine for each context"));
  Engine another = machine.engine();
  ScaleCall(3).launch(another);
  CHECK(machine.fake().launches().back().context == other);
}

TEST_CASE("A first launch that fails does not tie the engine to its context") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  machine.fake().fail("cuLibraryLoadData", CUDA_ERROR_OUT_OF_MEMORY, 1);
  error_of(ErrorCode::kDriverError, [&] { ScaleCall().launch(engine); });
  CUcontext other = machine.enter(0);
  ScaleCall().launch(engine);
  CHECK(machine.fake().launches().at(0).context == other);
}

}  // namespace kiln::test
