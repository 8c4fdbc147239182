#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/worker/message.hpp"

namespace kiln::test {

inline runtime::Hello sample_hello() {
  runtime::Hello hello;
  hello.build = runtime::build_text();
  hello.toolchain.nvrtc_path = "/opt/cuda/libnvrtc.so.13";
  hello.toolchain.builtins_path = "/opt/cuda/libnvrtc-builtins.so.13.0";
  hello.toolchain.major = 13;
  hello.toolchain.nvrtc_id = "aa00";
  hello.toolchain.builtins_id = "xxh3:bb11";
  return hello;
}

inline runtime::HelloReply sample_hello_reply() {
  return {std::vector<Target>{
      {9, 0, TargetSuffix::kBase}, {9, 0, TargetSuffix::kArch}, {10, 0, TargetSuffix::kFamily}}};
}

inline std::vector<registry::CompileUnit> sample_units() {
  registry::CompileUnit unit;
  unit.label = "test_op N=3 sm_90a";
  unit.target = {9, 0, TargetSuffix::kArch};
  unit.main = {"ops/test_op.cuh", "#include \"a.cuh\"\n"};
  unit.headers = {{"a.cuh", "struct A {};\n"}, {"b.cuh", ""}};
  unit.options = {"--use_fast_math", "-DX=1"};
  unit.name_expression = "scale<3>";
  std::vector<registry::CompileUnit> units(2, unit);
  units[1].label = "test_op N=5 sm_90a";
  units[1].name_expression = "scale<5>";
  return units;
}

inline runtime::CompileReply sample_compile_reply() {
  runtime::CompiledProgram program;
  program.cubin = std::string(
      "\x7f"
      "ELF\0\1",
      6);
  program.log = "ptxas info\n";
  program.kernels = {{"_Z5scaleILi3EEvPf", {16, 48, 0, 4, 8}, true},
                     {"_Z5scaleILi5EEvPf", {}, false}};
  return {std::move(program)};
}

inline tl::unexpected<Failure> sample_failure() {
  return fail(ErrorCode::kCompileFailed, "compiling test_op failed");
}

}  // namespace kiln::test
