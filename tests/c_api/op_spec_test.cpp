#include <functional>

#include "tests/c_api/machine.hpp"

namespace kiln::test {
namespace {

// What is said of the op once `change` has been made to its description.
std::string error_of_spec(const std::function<void(CScale&)>& change) {
  kiln_engine_options options = KILN_INIT(kiln_engine_options);
  kiln_engine* engine = nullptr;
  REQUIRE(kiln_engine_create(&options, &engine) == KILN_OK);
  CScale op;
  change(op);
  CHECK(kiln_register_op(engine, &op.spec) == KILN_ERROR_INVALID_ARGUMENT);
  size_t count = 0;
  size_t after = 0;
  kiln_op_count(engine, &count);
  kiln_register_op(engine, &op.spec);
  kiln_op_count(engine, &after);
  CHECK(after == count);
  kiln_engine_destroy(engine);
  return kiln_last_error_message();
}

}  // namespace

TEST_CASE("A description that cannot be read is refused, and the message names the part") {
  CHECK(contains(error_of_spec([](CScale& op) { op.spec.name = nullptr; }), "op"));
  CHECK(contains(error_of_spec([](CScale& op) { op.args[0].dtypes = "f16"; }), "\"f16\""));
  CHECK(contains(error_of_spec([](CScale& op) { op.args[0].shape = "m, n +"; }), "\"x\""));
  CHECK(contains(error_of_spec([](CScale& op) { op.args[0].access = 7; }), "access 7"));
  CHECK(contains(error_of_spec([](CScale& op) { op.args[2].scalar_type = 9; }), "KILN_TYPE_"));
  CHECK(contains(error_of_spec([](CScale& op) { op.args[2].reserved[1] = 1; }), "reserved"));
  CHECK(contains(error_of_spec([](CScale& op) { op.args[2].flags = 1 << 10; }), "0x400"));
  CHECK(contains(error_of_spec([](CScale& op) { op.params[2].reserved = 1; }), "reserved"));
  CHECK(contains(error_of_spec([](CScale& op) { op.kernel.reserved = 1; }), "reserved"));
  CHECK(contains(error_of_spec([](CScale& op) { op.params[0].source = 0; }), "KILN_PARAM_"));
  CHECK(contains(error_of_spec([](CScale& op) { op.params[0].name = "y"; }), "y"));
  CHECK(contains(error_of_spec([](CScale& op) { op.kernel.grid[1] = "q"; }), "uses q"));
  CHECK(contains(error_of_spec([](CScale& op) { op.kernel.grid[2] = "3 *"; }), "grid z"));
  CHECK(contains(error_of_spec([](CScale& op) { op.kernel.block[0] = "0"; }), "block x is 0"));
  CHECK(contains(error_of_spec([](CScale& op) { op.kernel.params = nullptr; }), "params"));
  CHECK(contains(error_of_spec([](CScale& op) { op.source.text = nullptr; }), "text"));
  CHECK(contains(error_of_spec([](CScale& op) { op.spec.workspace_bytes = "-"; }), "workspace"));
}

TEST_CASE("A call whose geometry has no value is outside the contract") {
  CMachine machine;
  machine.op.spec.name = "other";
  machine.op.kernel.grid[0] = "n / (m - 3)";
  machine.op.kernel.block[0] = "m - 2";
  kiln_engine* const engine = machine.engine();
  CHECK(kiln_launch(engine, "other", machine.args, 4, nullptr, nullptr) ==
        KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(kiln_last_error_message(), "divides by zero"));
  Tensor x(address(0x10000), DType::kF32, {2, 64});
  Tensor out(address(0x30000000), DType::kF32, {2, 64});
  machine.args[0].value.tensor = &out.dlpack();
  machine.args[2].value.tensor = &x.dlpack();
  CHECK(kiln_launch(engine, "other", machine.args, 4, nullptr, nullptr) ==
        KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(kiln_last_error_message(), "grid x"));
  kiln_engine_destroy(engine);
}

TEST_CASE("A parameter of 32 bits whose expression needs more is outside the contract") {
  CMachine machine;
  machine.op.spec.name = "other";
  machine.op.params[5].name = "m * 715827883";  // For m = 3, one more than fits.
  kiln_engine* const engine = machine.engine();
  CHECK(kiln_launch(engine, "other", machine.args, 4, nullptr, nullptr) ==
        KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(kiln_last_error_message(), "2147483649"));
  kiln_engine_destroy(engine);
}

TEST_CASE("Axes are extents, symbols, leading symbols, and expressions") {
  CScale described;
  described.args[0].shape = "m..., ceil_div(n, 4)*4";
  described.args[0].flags = 0;
  described.params[1].axis = 0;
  described.args[3].shape = "m, 64";
  const Op op = c_api::to_op(described.spec);
  CHECK(op.args[0].shape.at(0).text() == "m...");
  CHECK(op.args[0].shape.at(1).kind == Dim::Kind::kDerived);
  CHECK(op.args[0].shape.at(1).text() == "ceil_div(n,4)*4");
  CHECK(op.args[1].shape.at(0).kind == Dim::Kind::kSymbol);
  CHECK(op.args[3].shape.at(1).value == 64);
}

}  // namespace kiln::test
