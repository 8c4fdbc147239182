#include "tools/op_case.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "reference/norm.hpp"
#include "tests/support/catch.hpp"
#include "tools/compare.hpp"

namespace kiln::tools {
namespace {

// The case's call with `rows` rows.
HostCall call_of(const registry::Registry& ops, const OpCase& op_case, std::int64_t rows,
                 CallRequest request = {}) {
  request.dims.try_emplace(op_case.rows, rows);
  return {**ops.find(op_case.op), op_case, request};
}

const ReferenceDevice kDevice = {{9, 0}, reference::exact_rsqrt};

std::string refusal(const CallRequest& request) {
  const registry::Registry ops;
  try {
    call_of(ops, find_case("hc_combine_norm"), 1, request);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInvalidArgument);
    return error.what();
  }
  FAIL("the request was taken");
  return {};
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Every built-in op has a case, and every case an op") {
  std::multiset<std::string> ops;
  std::multiset<std::string> cases;
  for (const Op& op : registry::builtin_ops()) {
    ops.insert(op.name);
  }
  for (const OpCase& op_case : builtin_cases()) {
    cases.insert(op_case.op);
  }
  CHECK(ops == cases);
}

TEST_CASE("A case gives every symbol and scalar of its op a value, and names nothing else") {
  const registry::Registry ops;
  for (const OpCase& op_case : builtin_cases()) {
    INFO(op_case.op);
    const registry::BoundOp& op = **ops.find(op_case.op);
    std::set<std::string> symbols(op.names.symbols.begin(), op.names.symbols.end());
    std::set<std::string> given = {op_case.rows};
    for (const auto& [symbol, value] : op_case.dims) {
      given.insert(symbol);
    }
    CHECK(given == symbols);
    for (const ArgSpec& arg : op.op.args) {
      CHECK((arg.is_tensor() || op_case.scalars.contains(arg.name)));
    }
    REQUIRE_FALSE(op_case.shapes.empty());
    for (const TimedShape& shape : op_case.shapes) {
      INFO(shape.text);
      CHECK(shape.dims.contains(op_case.rows));
      for (const auto& [symbol, value] : shape.dims) {
        CHECK(symbols.contains(symbol));
        CHECK(value > 0);
      }
    }
  }
}

TEST_CASE("Every case's reference fills every output, also of no rows") {
  const registry::Registry ops;
  for (const OpCase& op_case : builtin_cases()) {
    for (const std::int64_t rows : {0, 3}) {
      INFO(op_case.op << ", " << rows << " rows");
      HostCall call = call_of(ops, op_case, rows);
      op_case.reference(call, kDevice);
      for (const HostTensor& tensor : call.tensors()) {
        INFO(tensor.arg->name);
        CHECK(tensor.data.size() == tensor.bytes());
        const bool all_zero = std::all_of(tensor.data.begin(), tensor.data.end(),
                                          [](std::byte byte) { return byte == std::byte{0}; });
        CHECK((!all_zero || tensor.data.empty()));
      }
    }
  }
}

TEST_CASE("A case serves every dtype that its op allows for an argument by itself") {
  const registry::Registry ops;
  const OpCase op_case = find_case("rmsnorm_fp32");
  CallRequest request;
  request.dtypes = {{"x", DType::kF32}, {"w", DType::kF32}, {"y", DType::kF32}};
  HostCall call = call_of(ops, op_case, 2, request);
  op_case.reference(call, kDevice);
  CHECK(call.tensor("y").as<float>().size() == 2 * 5120);
  CHECK(call.traffic() == (2 * 5120 * 2 + 5120) * 4);
}

TEST_CASE("Derived extents and leading axes follow from the symbols") {
  const registry::Registry ops;
  CallRequest request;
  request.dims = {{"k", 96}};
  const HostCall call = call_of(ops, find_case("hc_combine_norm_mxfp8"), 130, request);
  CHECK(call.tensor("x").shape == std::vector<std::int64_t>{130, 384});
  CHECK(call.tensor("sf").shape == std::vector<std::int64_t>{256 * 4});
  const HostCall flat = call_of(ops, find_case("rmsnorm_fp32"), 7, request);
  CHECK(flat.tensor("x").shape == std::vector<std::int64_t>{7, 96});
}

TEST_CASE("Equal seeds give equal inputs, other seeds others") {
  const registry::Registry ops;
  const OpCase op_case = find_case("rmsnorm");
  const auto inputs = [&](std::uint64_t seed) {
    CallRequest request;
    request.seed = seed;
    return call_of(ops, op_case, 2, request).tensor("x").data;
  };
  CHECK(inputs(1) == inputs(1));
  CHECK(inputs(1) != inputs(2));
}

TEST_CASE("Rows of a large random tensor differ from each other") {
  const registry::Registry ops;
  const HostCall call = call_of(ops, find_case("rmsnorm"), 2000);
  const auto x = call.tensor("x").as<std::uint16_t>();
  std::set<std::vector<std::uint16_t>> rows;
  for (std::size_t row = 0; row < 2000; ++row) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * 5120);
    rows.emplace(begin, begin + 5120);
  }
  CHECK(rows.size() == 2000);
}

TEST_CASE("A request that does not fit the op is refused with what would") {
  CHECK(mentions(refusal({.dims = {}, .dtypes = {}, .with = {"x"}}), "no optional argument 'x'"));
  CHECK(mentions(refusal({.dims = {{"n", 1}}, .dtypes = {}}), "there are: k, m"));
  CHECK(mentions(refusal({.dims = {{"m", -1}}, .dtypes = {}}), "cannot be -1"));
  CHECK(mentions(refusal({.dims = {{"m", std::int64_t{1} << 40}}, .dtypes = {}}), "GiB"));
  CHECK(mentions(refusal({.dims = {}, .dtypes = {{"eps", DType::kF32}}}), "no tensor 'eps'"));
  CHECK(mentions(refusal({.dims = {}, .dtypes = {{"pre", DType::kU8}}}), "bf16, f32"));
}

TEST_CASE("An op without a case is a clear error") {
  try {
    find_case("nosuch_op");
    FAIL("a case was found");
  } catch (const Error& error) {
    CHECK(mentions(error.what(), "tools/cases/nosuch_op.cpp"));
  }
}

TEST_CASE("Inputs that only a case can draw are asked of it") {
  const registry::Registry ops;
  ArgSpec ids;
  ids.name = "ids";
  ids.dtypes = {DType::kI64};
  HostTensor tensor;
  tensor.arg = &ids;
  tensor.dtype = DType::kI64;
  std::mt19937_64 generator;
  CHECK_THROWS_AS(fill_random(tensor, generator), Error);

  OpCase op_case = find_case("rmsnorm");
  op_case.fills["w"] = [](HostTensor& w, std::mt19937_64&, const HostCall&) {
    std::fill(w.data.begin(), w.data.end(), std::byte{0x3F});
  };
  const HostCall call = call_of(ops, op_case, 1);
  CHECK(call.tensor("w").as<std::uint16_t>()[5119] == 0x3F3F);
  CHECK(call.tensor("x").as<std::uint16_t>()[0] != 0x3F3F);
}

TEST_CASE("An optional argument that a call does not ask for is left out") {
  Op op = (**registry::Registry().find("rmsnorm")).op;
  op.name = "with_optional";
  ArgSpec bias = op.args[1];
  bias.name = "bias";
  bias.shape = {"b"};
  bias.optional = true;
  op.args.push_back(bias);
  op.kernels[0].params.push_back(Param::data("bias"));
  registry::Registry ops;
  REQUIRE(ops.add(op));
  OpCase op_case = find_case("rmsnorm");
  op_case.op = op.name;
  op_case.dims["b"] = 6;
  op_case.fills["bias"] = [](HostTensor& tensor, std::mt19937_64&, const HostCall& call) {
    // The tensors before it are there.
    std::copy_n(call.tensor("w").data.begin(), tensor.data.size(), tensor.data.begin());
  };
  const HostCall without = call_of(ops, op_case, 1);
  CHECK_FALSE(without.has("bias"));
  CHECK(without.has("w"));
  CHECK(without.tensors().size() == 3);
  CallRequest request;
  request.with = {"bias"};
  const HostCall with = call_of(ops, op_case, 1, request);
  CHECK(with.has("bias"));
  CHECK(with.tensor("bias").as<std::uint16_t>()[5] == with.tensor("w").as<std::uint16_t>()[5]);
  CHECK(with.traffic() == without.traffic() + 12);
  op_case.traffic = [](const HostCall& call) { return call.tensor("y").bytes(); };
  CHECK(call_of(ops, op_case, 1).traffic() == 2 * 5120);
  request.with = {"w"};
  CHECK_THROWS_AS(call_of(ops, op_case, 1, request), Error);
}

TEST_CASE("A comparison counts bits that differ and takes NaNs of floating types as equal") {
  const registry::Registry ops;
  const OpCase op_case = find_case("mxfp8_quantize");
  HostCall call = call_of(ops, op_case, 1);
  op_case.reference(call, kDevice);
  call.store("q", std::vector<std::uint8_t>(5120, 0x7F));
  std::vector<std::byte> got(5120, std::byte{0xFF});
  CHECK(compare(call.tensor("q"), got).different == 0);
  got[17] = std::byte{0x12};
  got[18] = std::byte{0x13};
  const Comparison c = compare(call.tensor("q"), got);
  CHECK(c.different == 2);
  CHECK(to_string(c) ==
        "q: 2 of 5120 elements differ from the reference; element 17 is 0x12, expected 0x7f");

  call.store("sf", std::vector<std::uint8_t>(call.tensor("sf").bytes(), 0x7F));
  const std::vector<std::byte> scales(call.tensor("sf").bytes(), std::byte{0xFF});
  CHECK(compare(call.tensor("sf"), scales).different == scales.size());
}

}  // namespace kiln::tools
