#pragma once

#include <string>
#include <utility>
#include <vector>

#include <kiln/op.hpp>

namespace kiln::test {

/// The least that compiles, in as many variants as are asked for: kernel N writes N.
inline Op tiny_op(int kernels) {
  Op op;
  op.name = "tiny";
  op.family = "test";
  op.summary = "writes a number";
  ArgSpec out;
  out.name = "out";
  out.dtypes = {DType::kI32};
  out.shape = {"n"};
  out.access = Access::kWrite;
  op.args = {out};
  op.traits = {TraitSpec::integers("N", "the number", 0, kernels - 1)};
  op.choose = [](const Problem&, Traits& traits) { traits.set("N", 0); };
  KernelSpec kernel;
  kernel.name = "tiny";
  kernel.source = "tiny.cu";
  kernel.instantiation = "tiny<{N}>";
  kernel.params = {Param::data("out")};
  kernel.geometry = [](const Problem&, const Traits&) { return Geometry{}; };
  op.kernels = {kernel};
  op.sources = {{"tiny.cu", "template <int N> __global__ void tiny(int* out) { *out = N; }\n"}};
  return op;
}

}  // namespace kiln::test
