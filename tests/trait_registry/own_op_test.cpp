// An engine's own op, complete, as an embedder writes it: only public headers up to the
// static_assert.
#include <kiln/op.hpp>

constexpr int kFirstLine = __LINE__;

constexpr const char* kScaleSource = R"cuda(
#include "prelude/bf16.cuh"
#include "prelude/pdl.cuh"

template <int ROWS, bool PDL>
__global__ void scale_rows(const float* x, long long stride, float factor, kiln::bf16* y, int m, int k) {
  kiln::launch_dependents<PDL>();
  kiln::wait_for_prerequisites<PDL>();
  for (int row = blockIdx.x * ROWS; row < min(m, (blockIdx.x + 1) * ROWS); ++row) {
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
      y[static_cast<long long>(row) * k + i] = kiln::to_bf16(factor * x[row * stride + i]);
    }
  }
}
)cuda";

kiln::Op scale_rows() {
  using namespace kiln;
  Op op;
  op.name = "acme.scale_rows";
  op.family = "acme";
  op.summary = "y[m, k] = bf16(factor * x[m, k])";
  op.args = {
      {.name = "x", .dtypes = {DType::kF32}, .shape = {"m", "k"}, .layout = Layout::kRowStrided},
      {.name = "factor", .scalar = ScalarType::kF32},
      {.name = "y", .dtypes = {DType::kBF16}, .shape = {"m", "k"}, .access = Access::kWrite},
  };
  op.traits = {TraitSpec::integers("ROWS", "rows per block", 1, 4), TraitSpec::boolean("PDL", "")};
  op.choose = [](const Problem& p, Traits& t) { t.set("ROWS", p.dim("m") < 512 ? 1 : 4); };
  op.kernels = {{
      .name = "scale",
      .source = "scale_rows.cu",
      .instantiation = "scale_rows<{ROWS}, {PDL}>",
      .params = {Param::data("x"), Param::stride("x", 0), Param::scalar("factor"), Param::data("y"),
                 Param::dim("m", ScalarType::kI32), Param::dim("k", ScalarType::kI32)},
      .geometry =
          [](const Problem& p, const Traits& t) {
            const auto rows = t["ROWS"];
            const auto blocks = static_cast<std::uint32_t>((p.dim("m") + rows - 1) / rows);
            return Geometry{.grid = {blocks}, .block = {128}};
          },
  }};
  op.sources = {{"scale_rows.cu", kScaleSource}};
  return op;
}

static_assert(__LINE__ - kFirstLine < 60, "an own op, its CUDA source included, in under 60 lines");

#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "trait_registry/check.hpp"
#include "trait_registry/registry.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::registry {
namespace {

TEST_CASE(
    "An engine's own op of under 60 lines is registered, checked and turned into compile units") {
  Registry registry;
  const Result<const BoundOp*> added = registry.add(scale_rows());
  REQUIRE(added);
  CHECK_FALSE((*added)->builtin);
  CHECK(*registry.find("acme.scale_rows") == *added);

  char memory[4096];
  void* base =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(memory) + 255) / 256 * 256);
  const Tensor x(base, DType::kF32, {3, 40}, {64, 1});
  const Tensor y(static_cast<char*>(base) + 1024, DType::kBF16, {3, 40});
  const std::vector<Arg> args = {x, 0.5, y};
  Problem problem((*added)->names);
  problem.set_target({9, 0, TargetSuffix::kArch});
  problem.set_pdl(true);
  int device = -1;
  REQUIRE(check_call(**added, args, true, problem, device));
  CHECK(problem.dim("k") == 40);

  const Traits traits = choose_traits(**added, problem);
  const Geometry geometry = (*added)->op.kernels[0].geometry(problem, traits);
  CHECK(geometry.grid == Dim3{3, 1, 1});
  const Variant variant{&(*added)->op, 0, traits, problem.target()};
  const Result<CompileUnit> unit = compile_unit(variant);
  REQUIRE(unit);
  CHECK(unit->label == "acme.scale_rows ROWS=1 PDL=true sm_90a");
  CHECK(unit->name_expression == "scale_rows<1, true>");
  CHECK(unit->main.text == kScaleSource);
  std::vector<std::string> headers;
  for (const SourceFile& header : unit->headers) {
    headers.push_back(header.name);
  }
  // Kiln's own prelude is there for engines too, and only what is included.
  CHECK(headers ==
        std::vector<std::string>{"prelude/bf16.cuh", "prelude/pdl.cuh", "prelude/types.cuh"});
  CHECK(enumerate(**added, problem.target()).size() == 8);
}

}  // namespace
}  // namespace kiln::registry
