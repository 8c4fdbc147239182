// Descriptions that contradict themselves are refused, and the message names the op, the part and
// the reason.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/trait_registry/sample_op.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::registry {
namespace {

struct Spoiled {
  std::string expected;  // The message after: op "sample"
  std::function<void(Op&)> spoil;
};

void check_all(const std::vector<Spoiled>& cases) {
  Registry registry;
  const std::size_t before = registry.all().size();
  for (const Spoiled& spoiled : cases) {
    Op op = test::sample_op();
    spoiled.spoil(op);
    const std::string name = op.name;
    CAPTURE(spoiled.expected);
    const Result<const BoundOp*> added = registry.add(std::move(op));
    REQUIRE_FALSE(added);
    CHECK(added.error().code == ErrorCode::kInvalidArgument);
    CHECK(added.error().message == "op \"" + name + "\"" + spoiled.expected);
  }
  CHECK(registry.all().size() == before);
}

TEST_CASE("The unspoiled sample is accepted") {
  Registry registry;
  CHECK(registry.add(test::sample_op()));
}

TEST_CASE("An op without what every op has is refused") {
  check_all({
      {", name: expected letters, digits, '_', '.', ':' and '-'", [](Op& op) { op.name = ""; }},
      {", name: expected letters, digits, '_', '.', ':' and '-'", [](Op& op) { op.name = "a b"; }},
      {", name: expected letters, digits, '_', '.', ':' and '-'",
       [](Op& op) { op.name = "gemm*"; }},
      {", kernels: has none", [](Op& op) { op.kernels.clear(); }},
      {", min_compute_capability: expected major * 10 + minor, such as 90 for 9.0, found 9",
       [](Op& op) { op.min_compute_capability = 9; }},
  });
}

TEST_CASE("Arguments that contradict themselves are refused") {
  check_all({
      {", argument 1: \"\" is no name", [](Op& op) { op.args[1].name = ""; }},
      {", argument \"x\": another argument has the same name",
       [](Op& op) { op.args[1].name = "x"; }},
      {", argument \"x\": lists a dtype twice",
       [](Op& op) {
         op.args[0].dtypes = {DType::kF32, DType::kF32};
       }},
      {", argument \"x\": alignment must be a power of two, found 24",
       [](Op& op) { op.args[0].alignment = 24; }},
      {", argument \"x\": alignment must be a power of two, found 0",
       [](Op& op) { op.args[0].alignment = 0; }},
      {", argument \"out\": is constant, but written", [](Op& op) { op.args[4].constant = true; }},
      {", argument \"out\": a fixed extent must be at least 1, found 0",
       [](Op& op) { op.args[4].shape[1] = 0; }},
      {", argument \"out\": \"m k\" is no name for a symbol",
       [](Op& op) { op.args[4].shape[1] = "m k"; }},
      {", argument \"out\": \"m...\" must be the first axis of a contiguous tensor",
       [](Op& op) { op.args[4].shape[1] = Dim::leading("m"); }},
      {", argument \"x\": \"m...\" must be the first axis of a contiguous tensor",
       [](Op& op) { op.args[0].shape[0] = Dim::leading("m"); }},
      {", argument \"out\": \"m k\" is no name for a symbol",
       [](Op& op) { op.args[4].shape[0] = Dim::leading("m k"); }},
      {", argument \"out\": a derived extent needs an expression and a function",
       [](Op& op) { op.args[4].shape[1] = Dim::derived("4*k", nullptr); }},
      {", argument \"x\": has 9 axes, more than 8",
       [](Op& op) { op.args[0].shape.assign(9, Dim("m")); }},
      {", argument \"eps\": has a shape, but no dtype", [](Op& op) { op.args[3].shape = {"m"}; }},
      {", argument \"eps\": is a scalar (it has no dtypes), but written",
       [](Op& op) { op.args[3].access = Access::kWrite; }},
      {", argument \"eps\": is a scalar (it has no dtypes), but constant, which is for tensors",
       [](Op& op) { op.args[3].constant = true; }},
      {", argument \"unused\": no kernel takes it",
       [](Op& op) {
         op.args.push_back({.name = "unused", .dtypes = {DType::kF32}, .shape = {"m"}});
       }},
      {", arguments: has 33, more than 32", [](Op& op) { op.args.resize(33); }},
      {": has 18 symbols in its shapes, more than 16",
       [](Op& op) {
         for (int i = 0; i < 16; ++i) {
           const std::string symbol = "s" + std::to_string(i);
           op.args.push_back({.name = symbol, .dtypes = {DType::kF32}, .shape = {symbol.c_str()}});
         }
       }},
  });
}

TEST_CASE("Traits that contradict themselves are refused") {
  check_all({
      {", trait 0: \"\" is no name", [](Op& op) { op.traits[0].name = ""; }},
      {", trait \"SPLIT\": another trait has the same name",
       [](Op& op) { op.traits[1].name = "SPLIT"; }},
      {", trait \"SPLIT\": its domain is empty", [](Op& op) { op.traits[0].domain.clear(); }},
      {", trait \"SPLIT\": its domain holds a value twice",
       [](Op& op) {
         op.traits[0].domain = {1, 1};
       }},
      {", trait \"SPLIT\": has labels, which only a choice has",
       [](Op& op) { op.traits[0].labels = {"a"}; }},
      {", trait \"ORDER\": its domain holds 2, but it has 2 labels",
       [](Op& op) {
         op.traits[1].domain = {0, 2};
       }},
      {", trait \"ORDER\": has a label twice",
       [](Op& op) {
         op.traits[1].labels = {"a", "a"};
       }},
      {", trait \"ORDER\": \"a, b\" is no label",
       [](Op& op) {
         op.traits[1].labels = {"a, b", "c"};
       }},
      {", trait \"PDL\": 2 is neither 0 nor 1",
       [](Op& op) {
         op.traits[2].domain = {0, 2};
       }},
      {", trait \"PDL\": the engine sets it to true or false, so it must be a boolean with both "
       "values",
       [](Op& op) { op.traits[2].domain = {1}; }},
      {", trait \"PDL\": the engine sets it to true or false, so it must be a boolean with both "
       "values",
       [](Op& op) { op.traits[2] = TraitSpec::integers("PDL", "", 0, 1); }},
      {", trait \"IDLE\": no kernel's instantiation names {IDLE}",
       [](Op& op) { op.traits.push_back(TraitSpec::boolean("IDLE", "")); }},
      {", trait \"SPLIT\": has 3 values, but the op has no choose function",
       [](Op& op) { op.choose = nullptr; }},
      {", traits: has 9, more than 8", [](Op& op) { op.traits.resize(9); }},
  });
}

TEST_CASE("Kernels that contradict the op are refused") {
  check_all({
      {", kernel 0: \"\" is no name", [](Op& op) { op.kernels[0].name = ""; }},
      {", kernel \"main\": another kernel has the same name",
       [](Op& op) { op.kernels.push_back(op.kernels[0]); }},
      {", kernel \"main\": has no geometry function",
       [](Op& op) { op.kernels[0].geometry = nullptr; }},
      {", kernel \"main\": has no instantiation", [](Op& op) { op.kernels[0].instantiation = ""; }},
      {", kernel \"main\": instantiation \"f<{N}>\" names {N}, which is no trait of the op",
       [](Op& op) { op.kernels[0].instantiation = "f<{N}>"; }},
      {", kernel \"main\": instantiation \"f<{SPLIT>\": unmatched '{' at position 2",
       [](Op& op) { op.kernels[0].instantiation = "f<{SPLIT>"; }},
      {", kernel \"main\": instantiation \"f<SPLIT}>\": unmatched '}' at position 7",
       [](Op& op) { op.kernels[0].instantiation = "f<SPLIT}>"; }},
      {", kernel \"main\", parameter 0: takes \"y\", which is no argument of the op",
       [](Op& op) { op.kernels[0].params[0] = Param::data("y"); }},
      {", kernel \"main\", parameter 0: takes \"eps\" as a tensor, but it is a scalar",
       [](Op& op) { op.kernels[0].params[0] = Param::data("eps"); }},
      {", kernel \"main\", parameter 0: takes \"x\" as a scalar, but it is a tensor",
       [](Op& op) { op.kernels[0].params[0] = Param::scalar("x"); }},
      {", kernel \"main\", parameter 1: takes the stride of axis 2 of \"x\", which has 2 axes",
       [](Op& op) { op.kernels[0].params[1] = Param::stride("x", 2); }},
      {", kernel \"main\", parameter 1: takes a stride of \"x\", whose number of axes varies",
       [](Op& op) {
         op.args[0].shape[0] = Dim::leading("m");
         op.args[0].layout = Layout::kContiguous;
       }},
      {", kernel \"main\", parameter 1: the stride of \"x\" must be i32 or i64",
       [](Op& op) { op.kernels[0].params[1] = Param::stride("x", 0, ScalarType::kF32); }},
      {", kernel \"main\", parameter 6: takes dim \"n\", which is no symbol of any shape",
       [](Op& op) { op.kernels[0].params[6] = Param::dim("n"); }},
      {", kernel \"main\", parameter 6: dim \"m\" must be i32 or i64",
       [](Op& op) { op.kernels[0].params[6] = Param::dim("m", ScalarType::kBool); }},
      {", kernel \"main\", parameter 8: \"2*m\" has no function to work it out",
       [](Op& op) { op.kernels[0].params.push_back(Param::computed("2*m", nullptr)); }},
      {", kernel \"main\", parameter 8: \"2*m\" must be i32 or i64",
       [](Op& op) {
         op.kernels[0].params.push_back(Param::computed(
             "2*m", [](const Problem&) { return std::int64_t{2}; }, ScalarType::kF32));
       }},
      {", kernel \"main\", parameter 8: takes the workspace, but the op has no workspace function",
       [](Op& op) { op.kernels[0].params.push_back(Param::workspace()); }},
      {", workspace: no kernel takes it",
       [](Op& op) { op.workspace = [](const Problem&, const Traits&) { return std::size_t{1}; }; }},
      {": a kernel takes constants_ready, but no argument is constant",
       [](Op& op) { op.args[1].constant = false; }},
  });
}

TEST_CASE("Sources that a compile could not find are reported at registration") {
  check_all({
      {", kernel \"main\": source \"gone.cu\" is neither among the op's sources nor one of Kiln's "
       "own "
       "files",
       [](Op& op) { op.kernels[0].source = "gone.cu"; }},
      {", kernel \"main\": \"sample.cu\" line 2 includes \"own.cuh\", which is neither among the "
       "op's "
       "sources nor one of Kiln's own files",
       [](Op& op) { op.sources.pop_back(); }},
      {", kernel \"main\": \"own.cuh\" line 1 includes \"deep.cuh\", which is neither among the "
       "op's "
       "sources nor one of Kiln's own files",
       [](Op& op) { op.sources[1].text = "#include \"deep.cuh\"\n"; }},
      {", kernel \"main\": \"own.cuh\" line 2: the file of an #include must be written out, since "
       "it "
       "cannot be known here what a macro stands for",
       [](Op& op) { op.sources[1].text = "\n#include WHICH\n"; }},
      {", source \"\": has no name", [](Op& op) { op.sources[1].name = ""; }},
      {", source \"sample.cu\": another source has the same name",
       [](Op& op) { op.sources[1].name = "sample.cu"; }},
      {", source \"prelude/types.cuh\": is the name of one of Kiln's own files, which would "
       "include it "
       "instead",
       [](Op& op) { op.sources[1].name = "prelude/types.cuh"; }},
      {", source \"own.cuh\": holds a NUL byte, at which a compiler would stop reading",
       [](Op& op) { op.sources[1].text = std::string("a\0b", 3); }},
  });
}

TEST_CASE("Options that would leave the key or change the target are refused") {
  std::vector<Spoiled> cases;
  for (const std::string option :
       {"-I", "-I/usr/include", "--include-path=/x", "-include=a.h", "--pre-include=a.h",
        "-arch=sm_90", "--gpu-architecture=compute_90", "-arch", "--options-file=x", "--pch",
        "--use-pch=x", "-dlto", "-rdc=true", "--relocatable-device-code=true", "--time=file"}) {
    cases.push_back(
        {", option \"" + option +
             "\": is not allowed: includes, targets and what a compile gives are Kiln's to "
             "decide, so that the cache key holds everything",
         [option](Op& op) {
           op.options = {"-DX", option};
         }});
  }
  for (const std::string option : {"", " -I/usr/include", "\t--pre-include=a.h"}) {
    cases.push_back({", options: holds one that is empty, starts with a blank, or has a NUL byte",
                     [option](Op& op) { op.options = {option}; }});
  }
  check_all(cases);
  Registry registry;
  Op op = test::sample_op();
  op.options = {"-DNDEBUG", "--fmad=false", "-D", "X=1", "--maxrregcount=64", "-lineinfo"};
  CHECK(registry.add(std::move(op)));
}

}  // namespace
}  // namespace kiln::registry
