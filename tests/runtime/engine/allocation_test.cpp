// A warm launch allocates nothing. This program counts its allocations, so it is one of its own.

#include "runtime/trace.hpp"
#include "tests/runtime/engine/ops.hpp"
#include "tests/support/count_allocations.hpp"

namespace kiln::test {

TEST_CASE("A warm launch allocates nothing and makes exactly one driver call per kernel") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const OpHandle op = engine.op("scale");
  const ScaleCall call;
  const Arg args[] = {call.x, call.bias, call.factor, call.out};
  engine.launch(op, args, nullptr);
  machine.fake().set_recording(false);

  const std::uint64_t calls = machine.fake().total();
  const std::size_t before = allocations;
  for (int i = 0; i < 1000; ++i) {
    engine.launch(op, args, nullptr);
  }
  CHECK(allocations == before);
  CHECK(machine.fake().total() == calls + 1000);
}

TEST_CASE("A plan's launch allocates nothing and makes exactly one driver call per kernel") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const ScaleCall call;
  const Arg args[] = {call.x, call.bias, call.factor, call.out};
  const Plan plan = engine.plan(engine.op("scale"), args);
  machine.fake().set_recording(false);
  const std::uint64_t calls = machine.fake().total();
  const std::size_t before = allocations;
  for (int i = 0; i < 1000; ++i) {
    plan.launch(args, nullptr);
  }
  CHECK(allocations == before);
  CHECK(machine.fake().total() == calls + 1000);
}

TEST_CASE("A warm launch by name allocates nothing") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const ScaleCall call;
  call.launch(engine);
  machine.fake().set_recording(false);
  const std::size_t before = allocations;
  call.launch(engine);
  CHECK(allocations == before);
}

TEST_CASE("A warm call of m = 0 makes no driver call and allocates nothing") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const OpHandle op = engine.op("scale");
  const ScaleCall call(0);
  const Arg args[] = {call.x, call.bias, call.factor, call.out};
  engine.launch(op, args, nullptr);
  machine.fake().set_recording(false);
  const std::uint64_t calls = machine.fake().total();
  const std::size_t before = allocations;
  engine.launch(op, args, nullptr);
  CHECK(allocations == before);
  CHECK(machine.fake().total() == calls);
}

TEST_CASE("Where nobody listens, a span of what an engine does allocates nothing") {
  runtime::Trace trace("", Logger(LogSink{}));
  if (runtime::ToolRange::tool_listens()) {
    WARN("skipped: a profiler records this program");
    return;
  }
  const std::size_t before = allocations;
  {
    runtime::TraceSpan span(trace, "scale ROWS=1 sm_90", "load");
    span.arg("image_bytes", 1);
  }
  CHECK(allocations == before);
}

}  // namespace kiln::test
