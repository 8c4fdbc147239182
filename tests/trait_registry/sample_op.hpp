#pragma once

#include <string>

#include <kiln/op.hpp>

namespace kiln::test {

/// A valid op with every kind of part, for tests to spoil or to call.
inline Op sample_op(const std::string& name = "sample") {
  Op op;
  op.name = name;
  op.family = "test";
  op.summary = "for tests";
  op.args = {
      {.name = "x",
       .dtypes = {DType::kBF16, DType::kF32},
       .shape = {"m", "k"},
       .layout = Layout::kRowStrided},
      {.name = "table", .dtypes = {DType::kF32}, .shape = {"k"}, .constant = true},
      {.name = "mask", .dtypes = {DType::kU8}, .shape = {"m"}, .alignment = 1, .optional = true},
      {.name = "eps", .scalar = ScalarType::kF32},
      {.name = "out", .dtypes = {DType::kF32}, .shape = {"m", 4}, .access = Access::kWrite},
  };
  op.traits = {TraitSpec::integers("SPLIT", "rows per block", 1, 3),
               TraitSpec::choice("ORDER", "order of sums", {"ns::kPeer", "ns::kFast"}),
               TraitSpec::boolean("PDL", "programmatic dependent launch")};
  op.kernels = {{.name = "main",
                 .source = "sample.cu",
                 .instantiation = "ns::sample<{SPLIT}, {ORDER}, {PDL}>",
                 .params = {Param::data("x"), Param::stride("x", 0), Param::data("table"),
                            Param::data("mask"), Param::scalar("eps"), Param::data("out"),
                            Param::dim("m", ScalarType::kI32), Param::constants_ready()},
                 .geometry = [](const Problem& problem, const Traits& traits) {
                   const auto rows = static_cast<std::uint32_t>(problem.dim("m"));
                   const auto split = static_cast<std::uint32_t>(traits["SPLIT"]);
                   return Geometry{.grid = {(rows + split - 1) / split}, .block = {64}};
                 }}};
  op.choose = [](const Problem& problem, Traits& traits) {
    traits.set("SPLIT", problem.dim("m") > 2 ? 3 : problem.dim("m"));
  };
  op.sources = {{"sample.cu", "#include \"prelude/types.cuh\"\n#include \"own.cuh\"\n"},
                {"own.cuh", "#pragma once\n"}};
  return op;
}

}  // namespace kiln::test
