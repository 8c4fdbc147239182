// The descriptions of the candidate ops against their contracts.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/trait_registry/ops/op_fixture.hpp"

namespace kiln::registry {
namespace {

using test::at;
using Fixture = test::OpFixture;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Tensor floats(std::uintptr_t index, std::int64_t rows, std::int64_t columns) {
  return {at(index), DType::kF32, {rows, columns}};
}
Tensor lens(std::int64_t rows, DType dtype = DType::kI64) {
  return {at(10), dtype, {rows}};
}
Tensor mask(std::uintptr_t index, std::int64_t rows, std::int64_t width) {
  return {at(index, 1), DType::kBool, {rows, width}};
}

TEST_CASE("candidate_row_lens has a thread for each row, and wants blocks and a selection") {
  Fixture f("candidate_row_lens");
  for (const std::int64_t rows : {0, 1, 31, 256, 257, 100'000}) {
    const Tensor row_lens = lens(rows, DType::kI32);
    const Tensor nblocks(at(1), DType::kI32, {rows});
    const Tensor valid(at(2, 4), DType::kI32, {rows});
    CHECK(f.error({row_lens, 2048, 8, nblocks, valid}).empty());
    CHECK(std::int64_t{f.geometry().grid.x} * f.geometry().block.x >= rows);
    CHECK((rows == 0) == (f.geometry().grid.x == 0));
    CHECK(has(f.error({row_lens, 0, 8, nblocks, valid}), "topk_blocks must be at least 1"));
    CHECK(has(f.error({row_lens, 1, 0, nblocks, valid}), "block_size must be at least 1, found 0"));
    CHECK(has(f.error({row_lens, 1, std::int64_t{1} << 31, nblocks, valid}), "32 bits"));
  }
}

TEST_CASE("candidate_block_scores wants a score for each block, the last one cut off or not") {
  Fixture f("candidate_block_scores");
  const Tensor logits(at(0, 4), DType::kF32, {3, 1001}, {1111, 1});
  const Tensor out = floats(1, 3, 1001);
  CHECK(f.error({logits, lens(3), 8, out, floats(2, 3, 126)}).empty());
  CHECK(f.geometry().grid == Dim3{3, 1, 1});
  CHECK(f.error({logits, lens(3), 8, out, floats(2, 3, 125)}) ==
        "candidate_block_scores: b must be width / block_size, rounded up: 126, found 125");
  CHECK(has(f.error({logits, lens(3), -1, out, floats(2, 3, 126)}), "found -1"));
  CHECK(has(f.error({logits, lens(3), 8, logits, floats(2, 3, 126)}), "contiguous"));
  CHECK(f.error({floats(0, 4, 131'072), lens(4), 8, floats(1, 4, 131'072), floats(2, 4, 16'384)})
            .empty());
  CHECK(f.geometry().grid == Dim3{4, 128, 1});
  CHECK(f.error({floats(0, 0, 8), lens(0), 8, floats(1, 0, 8), floats(2, 0, 1)}).empty());
  CHECK(f.geometry().grid.x == 0);
}

TEST_CASE("A row's selection has the CTAs that can hold it, and more while there is room") {
  Fixture f("candidate_select_blocks");
  const auto ctas = [&](std::int64_t rows, std::int64_t b, std::int64_t k) {
    CHECK(f.error({floats(0, rows, b), Tensor(at(1), DType::kI32, {rows, k}), floats(2, rows, k)})
              .empty());
    const Geometry geometry = f.geometry();
    CHECK(geometry.block.x == 1024);
    CHECK(geometry.cluster.y * geometry.cluster.z == 1);
    CHECK(geometry.grid.x == (k == 0 ? 0 : rows * geometry.cluster.x));
    return geometry.cluster.x;
  };
  CHECK(ctas(4, 16'384, 2048) == 4);
  CHECK(ctas(16, 16'384, 2048) == 4);
  CHECK(ctas(32, 16'384, 2048) == 2);
  CHECK(ctas(64, 16'384, 2048) == 2);
  CHECK(ctas(67, 16'384, 2048) == 1);
  CHECK(ctas(64, 131'072, 2048) == 8);
  CHECK(ctas(1, 100, 7) == 1);
  CHECK(ctas(1, 10'000'000, 7) == 8);
  CHECK(ctas(1, 100, 0) == 1);
  CHECK(ctas(0, 100, 9) == 1);
  CHECK(ctas(1 << 28, 131'072, 1) == 4);  // As many as a grid holds.
  CHECK(ctas(1 << 29, 131'072, 1) == 2);
  CHECK(ctas(2147483647, 100, 1) == 1);
  f.target = "sm_120a";
  CHECK(ctas(1, 131'072, 2048) == 1);
  CHECK(f.error({floats(0, 2, 8), Tensor(at(1), DType::kI32, {2, 9}), floats(2, 2, 9)}) ==
        "candidate_select_blocks: k must be at most b = 8, found 9");
}

TEST_CASE("publish_candidate_mask takes a mask at any byte") {
  Fixture f("publish_candidate_mask");
  const Tensor indices(at(1), DType::kI32, {4, 2048});
  CHECK(f.error({indices, floats(2, 4, 2048), 8, mask(3, 4, 131'072)}).empty());
  CHECK(f.geometry().grid == Dim3{4, 8, 1});
  CHECK(has(f.error({indices, floats(2, 4, 2048), 0, mask(3, 4, 131'072)}), "block_size"));
  CHECK(f.error({Tensor(at(1), DType::kI32, {4, 0}), floats(2, 4, 0), 8, mask(3, 4, 9)}).empty());
  CHECK(f.geometry().grid == Dim3{4, 1, 1});  // Nothing is selected, and all is written.
}

TEST_CASE(
    "candidate_block_logits takes one kernel while there is room for the clusters of all rows") {
  Fixture f("candidate_block_logits");
  // CTAs of a row in the one kernel; 0: the three steps.
  const auto ctas = [&](std::int64_t rows, std::int64_t width) {
    CHECK(f.error({floats(0, rows, width), lens(rows), 2048, 8, Arg(), floats(1, rows, width),
                   mask(2, rows, width)})
              .empty());
    const Geometry geometry = f.geometry(0);
    CHECK((geometry.grid.x == 0) == (f.geometry(1).grid.x != 0));
    CHECK((geometry.grid.x == 0) == (f.geometry(2).grid.x != 0));
    CHECK((geometry.grid.x == 0) == (f.geometry(3).grid.x != 0));
    CHECK(f.op.op.workspace(f.problem, {}) ==
          (geometry.grid.x != 0 ? 0U : static_cast<std::size_t>(256 + rows * width * 4)));
    if (geometry.grid.x == 0) {
      return std::uint32_t{0};
    }
    CHECK(geometry.grid.x == rows * geometry.cluster.x);
    CHECK(geometry.dynamic_shared_bytes * std::int64_t{geometry.cluster.x} >= width * 4);
    return geometry.cluster.x;
  };
  CHECK(ctas(1, 100) == 1);
  CHECK(ctas(1, 4097) == 2);
  CHECK(ctas(1, 131'072) == 8);
  CHECK(ctas(14, 131'072) == 8);
  CHECK(ctas(16, 131'072) == 4);
  CHECK(ctas(29, 131'072) == 4);
  CHECK(ctas(30, 131'072) == 0);
  CHECK(ctas(1, 262'144) == 8);
  CHECK(ctas(1, 300'000) == 0);
  f.target = "sm_120a";
  CHECK(ctas(1, 131'072) == 0);
}

TEST_CASE("candidate_block_logits either selects or is told, and launches the steps of that form") {
  Fixture f("candidate_block_logits");
  const Tensor logits = floats(0, 4, 131'072);
  const Tensor out = floats(1, 4, 131'072);
  const auto launched = [&] {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < f.op.op.kernels.size(); ++i) {
      if (f.geometry(i).grid.x != 0) {
        names.push_back(f.op.op.kernels[i].name);
      }
    }
    return names;
  };
  const auto workspace = [&] { return f.op.op.workspace(f.problem, {}); };
  CHECK(f.error({logits, lens(4), 2048, 8, Arg(), out, mask(2, 4, 131'072)}).empty());
  CHECK(launched() == std::vector<std::string>{"source"});
  CHECK(workspace() == 0);
  CHECK(f.error({logits, lens(4), 2048, 8, mask(2, 4, 131'072), out, Arg()}).empty());
  CHECK(launched() == std::vector<std::string>{"consume"});
  CHECK(workspace() == 0);
  CHECK(f.error({logits, lens(4), 2048, 8, Arg(), out, Arg()}) ==
        "candidate_block_logits: either published or keep is given, found neither");
  CHECK(has(f.error({logits, lens(4), 2048, 8, mask(2, 4, 131'072), out, mask(3, 4, 131'072)}),
            "found both"));
  CHECK(has(f.error({logits, lens(4), 0, 8, Arg(), out, mask(2, 4, 131'072)}), "topk_blocks"));
  CHECK(has(f.error({logits, lens(4), 1, 0, Arg(), out, mask(2, 4, 131'072)}), "block_size"));
  const Tensor empty = floats(0, 4, 0);
  CHECK(f.error({empty, lens(4), 1, 1, Arg(), floats(1, 4, 0), mask(2, 4, 0)}).empty());
  for (std::size_t i = 0; i < f.op.op.kernels.size(); ++i) {
    const Dim3 grid = f.geometry(i).grid;
    CHECK(grid.x * grid.y * grid.z == 0);
  }
}

}  // namespace
}  // namespace kiln::registry
