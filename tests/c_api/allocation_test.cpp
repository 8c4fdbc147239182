// A program of its own, since it counts its allocations.

#include "tests/c_api/machine.hpp"
#include "tests/support/count_allocations.hpp"

namespace kiln::test {

TEST_CASE("A warm kiln_plan_launch allocates nothing and makes exactly one driver call") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  kiln_plan* plan = nullptr;
  REQUIRE(kiln_plan_create(engine, "c_scale", machine.args, 4, &plan) == KILN_OK);
  const kiln_launch_options options = KILN_INIT(kiln_launch_options);
  machine.fake().set_recording(false);
  const std::uint64_t calls = machine.fake().total();
  const std::size_t before = allocations;
  int failures = 0;
  for (int i = 0; i < 1000; ++i) {
    failures += kiln_plan_launch(plan, machine.args, 4, nullptr, nullptr);
    failures += kiln_plan_launch(plan, machine.args, 4, nullptr, &options);
  }
  CHECK(allocations == before);
  CHECK(failures == 0);
  CHECK(machine.fake().total() == calls + 2000);
  kiln_plan_destroy(plan);
  kiln_engine_destroy(engine);
}

TEST_CASE("A warm kiln_launch allocates nothing") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  REQUIRE(kiln_launch(engine, "c_scale", machine.args, 4, nullptr, nullptr) == KILN_OK);
  machine.fake().set_recording(false);
  const std::size_t before = allocations;
  const kiln_status status = kiln_launch(engine, "c_scale", machine.args, 4, nullptr, nullptr);
  CHECK(allocations == before);
  CHECK(status == KILN_OK);
  kiln_engine_destroy(engine);
}

}  // namespace kiln::test
