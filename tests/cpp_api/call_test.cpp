#include <type_traits>
#include <utility>

#include "tests/cpp_api/machine.hpp"

namespace kiln::test {

TEST_CASE("Arguments come in the op's order, or by their names in any") {
  DoorMachine machine;
  const ScaleCall call;
  Engine engine = scale_engine(machine.options());
  engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  engine.launch(std::string("c_scale"),
                {{"out", call.out}, {"factor", 1.5}, {"x", call.x}, {"bias", call.bias}}, nullptr);
  engine.launch("c_scale", {call.x, {}, 3, call.out}, nullptr);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 3);
  CHECK(launches[0].params == launches[1].params);
  CHECK(launches[0].params.at(0) == bytes_of(std::uint64_t{0x10000}));
  CHECK(launches[0].params.at(1) == bytes_of(std::int64_t{128}));
  CHECK(launches[0].params.at(3) == bytes_of(1.5F));
  CHECK(launches[0].params.at(5) == bytes_of(std::int32_t{7}));
  CHECK(launches[2].params.at(2) == bytes_of(std::uint64_t{0}));
  CHECK(launches[2].params.at(3) == bytes_of(3.0F));
}

TEST_CASE("A call that cannot be meant throws, with C's code and message") {
  DoorMachine machine;
  const ScaleCall call;
  Engine engine = scale_engine(machine.options());
  CHECK(contains(error_of(ErrorCode::kUnknownOp, [&] { engine.launch("c_scal", {}, nullptr); }),
                 "c_scale"));
  CHECK(contains(error_of(ErrorCode::kInvalidArgument,
                          [&] {
                            engine.launch("c_scale", {{"weight", call.x}}, nullptr);
                          }),
                 "x, bias, factor, out"));
  CHECK(contains(error_of(ErrorCode::kInvalidArgument,
                          [&] {
                            engine.plan("c_scale", {call.x, call.x, 1.0, call.out});
                          }),
                 "bias"));
  CHECK(machine.fake().launches().empty());
}

TEST_CASE("A bad call is an answer of can_use, with its reason") {
  DoorMachine machine;
  const ScaleCall call;
  const Engine engine = scale_engine(machine.options());
  CHECK(engine.can_use("c_scale", {call.x, call.bias, 1.5, call.out}));
  const CanUse no = engine.can_use("c_scale", {call.x, call.out, 1.5, call.out});
  CHECK(!no.ok);
  CHECK(contains(no.reason, "bias"));
  error_of(ErrorCode::kUnknownOp, [&] { engine.can_use("none", {}); });
  CHECK(engine.workspace_bytes("c_scale", {call.x, call.bias, 1.5, call.out}) == 0);
}

TEST_CASE("A plan launches what it was made for, with other pointers and scalars") {
  DoorMachine machine;
  ScaleCall call;
  Engine engine = scale_engine(machine.options());
  const Plan plan = engine.plan("c_scale", {{"out", call.out}, {"factor", 1.5}, {"x", call.x}});
  CHECK(machine.fake().launches().empty());
  CHECK(plan.workspace_bytes() == 0);
  call.out.set_data(place(0x40000000));
  plan.launch({call.out, 2.5, call.x}, nullptr);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].params.at(3) == bytes_of(2.5F));
  CHECK(launches[0].params.at(4) == bytes_of(std::uint64_t{0x40000000}));
  CHECK(contains(error_of(ErrorCode::kInvalidArgument, [&] { plan.launch({call.x}, nullptr); }),
                 "3 arguments"));
}

TEST_CASE("Each launch option reaches the driver") {
  DoorMachine machine;
  const ScaleCall call;
  Engine engine = scale_engine(machine.options());
  const Plan plan = engine.plan("c_scale", {call.x, call.bias, 1.5, call.out});
  LaunchOptions options;
  plan.launch({call.x, call.bias, 1.5, call.out}, nullptr, options);
  options.pdl = false;
  options.priority = -3;
  options.memory_sync_domain = MemorySyncDomain::kRemote;
  plan.launch({call.x, call.bias, 1.5, call.out}, nullptr, options);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 2);
  constexpr auto kPdl = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  CHECK(launches[0].attribute(kPdl) != nullptr);
  CHECK(launches[0].attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY) == nullptr);
  CHECK(launches[1].attribute(kPdl) == nullptr);
  REQUIRE(launches[1].attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY) != nullptr);
  CHECK(launches[1].attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY)->value.priority == -3);
  CHECK(launches[1].attribute(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN) != nullptr);
}

TEST_CASE("Handles move and do not copy; what was moved from refuses, and can be assigned to") {
  static_assert(!std::is_copy_constructible_v<Engine> && !std::is_copy_constructible_v<Plan> &&
                !std::is_copy_constructible_v<Prefetch>);
  static_assert(std::is_nothrow_move_constructible_v<Engine> &&
                std::is_nothrow_move_constructible_v<Plan> &&
                std::is_nothrow_move_constructible_v<Prefetch>);
  DoorMachine machine;
  const ScaleCall call;
  Engine first = scale_engine(machine.options());
  Plan plan = first.plan("c_scale", {call.x, call.bias, 1.5, call.out});
  Engine second = std::move(first);
  const Plan moved = std::move(plan);
  moved.launch({call.x, call.bias, 1.5, call.out}, nullptr);
  second.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  CHECK(machine.fake().launches().size() == 2);
  CHECK(first.handle() == nullptr);  // NOLINT(bugprone-use-after-move): that is the test.
  CHECK(contains(error_of(ErrorCode::kInvalidArgument, [&] { first.op_names(); }), "NULL"));
  first = scale_engine(machine.options());
  CHECK(!first.op_names().empty());
}

TEST_CASE("After an unload a plan says so, and a launch loads again") {
  DoorMachine machine;
  const ScaleCall call;
  Engine engine = scale_engine(machine.options());
  const Plan plan = engine.plan("c_scale", {call.x, call.bias, 1.5, call.out});
  CHECK(engine.unload({}) == 1);
  error_of(ErrorCode::kNotLoaded, [&] {
    plan.launch({call.x, call.bias, 1.5, call.out}, nullptr);
  });
  engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  const CUstream stream = machine.fake().make_stream(machine.enter());
  machine.fake().set_capturing(stream, true);
  error_of(ErrorCode::kInvalidArgument, [&] { engine.unload({stream}); });
}

}  // namespace kiln::test
