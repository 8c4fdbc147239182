#pragma once

#include <string>
#include <utility>

#include "runtime/nvrtc/compiler.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::test {

inline constexpr Target kSm90{9, 0, TargetSuffix::kBase};
inline constexpr Target kSm90a{9, 0, TargetSuffix::kArch};
inline constexpr Target kSm100a{10, 0, TargetSuffix::kArch};

/// A unit as the registry would make it, of one source.
inline registry::CompileUnit make_unit(std::string source, std::string instantiation,
                                       const Target& target = kSm90a) {
  registry::CompileUnit unit;
  unit.label = "test_op N=3 " + to_string(target);
  unit.target = target;
  unit.main = {"ops/test_op.cuh", std::move(source)};
  unit.name_expression = std::move(instantiation);
  return unit;
}

inline constexpr const char* kScale = R"(
template <int N>
__global__ void scale(float* data) { data[threadIdx.x] *= N; }
)";

inline registry::CompileUnit scale_unit(const Target& target = kSm90a) {
  return make_unit(kScale, "scale<3>", target);
}

/// A program of one kernel.
struct Compiled : runtime::CompiledProgram, runtime::CompiledKernel {};

inline Result<Compiled> compile_one(const runtime::Compiler& compiler,
                                    const registry::CompileUnit& unit) {
  Result<runtime::CompiledProgram> program = compiler.compile({&unit, 1});
  if (!program) {
    return tl::unexpected(std::move(program.error()));
  }
  runtime::CompiledKernel kernel = std::move(program->kernels.front());
  return Compiled{std::move(*program), std::move(kernel)};
}

}  // namespace kiln::test
