#include <fstream>

#include "tests/cpp_api/machine.hpp"

namespace kiln::test {

TEST_CASE("An op described in C++ is the op that C describes, down to the key of its kernel") {
  DoorMachine machine;
  const ScaleCall call;
  Engine engine = scale_engine(machine.options());
  engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  CHECK(engine.counters().cache_hits == 1);  // What C's description planted.
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].grid[0] == 2);
  CHECK(launches[0].block[0] == 128);
  CHECK(launches[0].params.size() == 6);
}

TEST_CASE("A description that contradicts itself is refused, and adds nothing") {
  DoorMachine machine;
  Engine engine(machine.options());
  const std::size_t before = engine.op_names().size();
  const auto refused = [&](ErrorCode code, const OpSpec& op) {
    return error_of(code, [&] { engine.register_op(op); });
  };
  OpSpec op = scale_op();
  op.kernels[0].grid.x = "q";
  CHECK(contains(refused(ErrorCode::kInvalidArgument, op), "uses q"));
  op = scale_op();
  op.args[0].dtypes = "f16";
  CHECK(contains(refused(ErrorCode::kInvalidArgument, op), "\"f16\""));
  op = scale_op();
  op.sources[0].text.clear();
  CHECK(contains(refused(ErrorCode::kInvalidArgument, op), "text"));
  CHECK(engine.op_names().size() == before);
  engine.register_op(scale_op());
  refused(ErrorCode::kDuplicateOp, scale_op());
}

TEST_CASE("Sources without text are read from a folder, with what they include") {
  DoorMachine machine;
  const ScaleCall call;
  OpSpec op = scale_op();
  std::ofstream(machine.path("scale.cu")) << op.sources[0].text;
  op.sources[0].text.clear();
  op.source_directory = machine.path("");
  Engine engine(machine.options());
  engine.register_op(op);
  engine.launch("c_scale", {call.x, call.bias, 1.5, call.out}, nullptr);
  CHECK(engine.counters().cache_hits == 1);  // The same text, so the same key.

  op.name = "other";
  std::ofstream(machine.path("scale.cu")) << "#include \"gone.cuh\"\n";
  CHECK(contains(error_of(ErrorCode::kIo, [&] { engine.register_op(op); }), "gone.cuh"));
}

TEST_CASE("Workspace, shared memory, clusters and options reach the op") {
  DoorMachine machine;
  const ScaleCall call;
  OpSpec op = scale_op();
  op.name = "other";
  op.workspace_bytes = "m * 256";
  op.kernels[0].dynamic_shared_bytes = "n * 4";
  op.kernels[0].cluster = {"2"};
  op.kernels[0].params.push_back(Param::workspace());
  op.kernels[0].params.push_back(Param::constants_ready());
  op.options = {"-DOTHER=1"};
  Engine engine(machine.options());
  engine.register_op(op);
  CHECK(engine.workspace_bytes("other", {call.x, call.bias, 1.5, call.out}) == 768);
}

}  // namespace kiln::test
