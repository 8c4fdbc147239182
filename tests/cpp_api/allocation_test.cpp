// A program of its own, since it counts its allocations.

#include "tests/cpp_api/machine.hpp"
#include "tests/support/count_allocations.hpp"

namespace kiln::test {

TEST_CASE("A warm Plan::launch allocates nothing and makes exactly one driver call") {
  DoorMachine machine;
  const ScaleCall call;
  Engine engine = scale_engine(machine.options());
  const Plan plan = engine.plan("c_scale", {call.x, call.bias, 1.5, call.out});
  const std::vector<Arg> kept = {call.x, call.bias, 1.5, call.out};
  machine.fake().set_recording(false);
  const std::uint64_t calls = machine.fake().total();
  const std::size_t before = allocations;
  for (int i = 0; i < 1000; ++i) {
    plan.launch(kept, nullptr);
    plan.launch({call.x, call.bias, 1.5, call.out}, nullptr, LaunchOptions{});
  }
  CHECK(allocations == before);
  CHECK(machine.fake().total() == calls + 2000);
}

TEST_CASE("A warm Engine::launch allocates nothing, with names neither") {
  DoorMachine machine;
  const ScaleCall call;
  Engine engine = scale_engine(machine.options());
  const auto launch = [&] {
    engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
    engine.launch("c_scale", {{"out", call.out}, {"x", call.x}, {"factor", 1.5}}, nullptr,
                  LaunchOptions{});
  };
  launch();
  machine.fake().set_recording(false);
  const std::size_t before = allocations;
  launch();
  CHECK(allocations == before);
}

}  // namespace kiln::test
