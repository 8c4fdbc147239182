// How long loaded kernels live.
#include <optional>

#include <malloc.h>

#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {
namespace {

// Making an engine takes many times as long then.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::size_t unloads(Machine& machine) {
  return machine.fake().count("cuLibraryUnload");
}

}  // namespace

TEST_CASE("A thousand engines load each kernel once, and unload none when they go") {
  constexpr std::size_t kEngines = kSanitized ? 100 : 1000;
  ScaleMachine machine;
  for (std::size_t i = 0; i < kEngines; ++i) {
    Engine engine = machine.engine();
    ScaleCall(3).launch(engine);
    ScaleCall(5).launch(engine);
    REQUIRE(engine.counters().libraries_loaded == (i == 0 ? 2U : 0U));
  }
  CHECK(machine.fake().count("cuLibraryLoadData") == 2);
  CHECK(unloads(machine) == 0);
  CHECK(machine.fake().launches().size() == 2 * kEngines);
}

TEST_CASE(
    "unload() unloads what the engine loaded; launching loads it again, a plan must be made "
    "again (field report 124)") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  CHECK(engine.unload({}) == 0);
  const ScaleCall call;
  const std::vector<Arg> args{call.x, call.bias, 1.0, call.out};
  const Plan plan = engine.plan(engine.op("scale"), args);
  ScaleCall(5).launch(engine);
  plan.launch(args, nullptr);
  CHECK(engine.unload({}) == 2);
  CHECK(unloads(machine) == 2);
  CHECK(engine.unload({}) == 0);

  const std::string message = error_of(ErrorCode::kNotLoaded, [&] { plan.launch(args, nullptr); });
  CHECK(contains(message, "scale"));
  CHECK(contains(message, "make the plan again"));
  CHECK(plan.workspace_bytes() == 0);
  call.launch(engine);
  engine.plan(engine.op("scale"), args).launch(args, nullptr);
  CHECK(machine.fake().count("cuLibraryLoadData") == 3);
  CHECK(machine.fake().launches().size() == 4);
}

TEST_CASE("Plans that went leave no memory behind, nor anything for unload() to find") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const ScaleCall call;
  const std::vector<Arg> args{call.x, call.bias, 1.0, call.out};
  const OpHandle op = engine.op("scale");
  const Plan kept = engine.plan(op, args);
  machine.fake().set_recording(false);
  const auto before = mallinfo2().uordblks;
  for (int i = 0; i < 1000; ++i) {
    const Plan plan = engine.plan(op, args);
    const std::vector<Plan> copies(2, plan);
    copies[1].launch(args, nullptr);
  }
  CHECK(mallinfo2().uordblks < before + 10'000);
  CHECK(engine.unload({}) == 1);
  error_of(ErrorCode::kNotLoaded, [&] { kept.launch(args, nullptr); });
}

TEST_CASE("A plan may go after its engine, and until then says that its engine is gone") {
  ScaleMachine machine;
  std::optional<Engine> engine = machine.engine();
  const ScaleCall call;
  const std::vector<Arg> args{call.x, call.bias, 1.0, call.out};
  std::optional<Plan> plan = engine->plan(engine->op("scale"), args);
  engine.reset();
  machine.fake().forget_calls();
  CHECK(plan->workspace_bytes() == 0);
  const std::string message = error_of(ErrorCode::kNotLoaded, [&] { plan->launch(args, nullptr); });
  CHECK(contains(message, "scale"));
  CHECK(contains(message, "engine was destroyed"));
  CHECK(contains(error_of(ErrorCode::kInvalidArgument, [&] { plan->launch({call.x}, nullptr); }),
                 "scale"));
  CHECK(machine.fake().launches().empty());
  plan.reset();
}

TEST_CASE("unload() leaves what another living engine uses") {
  ScaleMachine machine;
  auto other = std::make_unique<Engine>(machine.engine());
  Engine engine = machine.engine();
  ScaleCall(3).launch(*other);
  ScaleCall(3).launch(engine);
  ScaleCall(5).launch(engine);
  CHECK(engine.unload({}) == 1);
  ScaleCall(3).launch(*other);
  ScaleCall(3).launch(engine);
  other.reset();
  CHECK(engine.unload({}) == 1);
  CHECK(unloads(machine) == 2);
}

TEST_CASE("unload() is refused while a capture is under way, which stays whole") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall().launch(engine);
  CUstream idle = machine.fake().make_stream(machine.context);
  CUstream named = machine.fake().make_stream(machine.context);
  CUstream blocking = machine.fake().make_blocking_stream(machine.context);
  CUstream busy = GENERATE_COPY(named, blocking);
  machine.fake().set_capturing(busy, true);
  const std::string message = error_of(ErrorCode::kInvalidArgument, [&] {
    engine.unload({idle, named});
  });
  CHECK(contains(message, "is being captured"));
  CHECK(unloads(machine) == 0);
  CHECK_FALSE(machine.fake().spoiled(busy));
  ScaleCall().launch(engine);
  machine.fake().set_capturing(busy, false);
  CHECK(engine.unload({idle, named}) == 1);
}

TEST_CASE("A library that the driver does not unload is an error, and can be launched again") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall().launch(engine);
  machine.fake().fail("cuLibraryUnload", CUDA_ERROR_INVALID_VALUE, 1);
  CHECK(contains(error_of(ErrorCode::kDriverError, [&] { engine.unload({}); }), "cuLibraryUnload"));
  ScaleCall().launch(engine);
  CHECK(machine.fake().launches().size() == 2);
}

}  // namespace kiln::test
