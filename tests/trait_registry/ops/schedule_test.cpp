// The descriptions of filter_topk_pages and flashmla_sched_meta against their contracts.
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

struct Pages {
  explicit Pages(std::int64_t rows, std::int64_t width = 131'072, std::int64_t pages = 2048)
      : scores(at(0, 4), DType::kF32, {rows, width}),
        indices(at(1), DType::kI32, {rows, 2048}, {2050, 1}),
        table(at(2), DType::kI32, {rows, pages}),
        out(at(3), DType::kI64, {rows, 2048}) {}
  std::vector<Arg> args(const Arg& raw = Arg()) const {
    return {scores, indices, table, out, page_size, raw};
  }
  Tensor scores, indices, table, out;
  std::int64_t page_size = 64;
};

TEST_CASE("filter_topk_pages takes indices of either type and rows with gaps") {
  Fixture f("filter_topk_pages");
  const Pages pages(4);
  CHECK(f.error(pages.args()).empty());
  CHECK(f.computed("which arrays are i64") == 2);
  const Tensor raw(at(4), DType::kI64, {4, 2048});
  CHECK(f.error(pages.args(raw)).empty());
  CHECK(f.computed("which arrays are i64") == 6);
  CHECK(has(f.error(pages.args(pages.out)), "shares bytes"));
  Pages one_table(4);
  one_table.table = Tensor(at(2), DType::kI32, {4, 2048}, {0, 1});
  CHECK(f.error(one_table.args()).empty());
}

TEST_CASE(
    "filter_topk_pages wants pages for the whole width, and a grid that holds all positions") {
  Fixture f("filter_topk_pages");
  CHECK(f.error(Pages(4, 131'073, 2049).args()).empty());
  CHECK(f.error(Pages(4, 131'073, 2048).args()) ==
        "filter_topk_pages: the pages of a row must hold its width: p * page_size must be at least "
        "width = 131073, found 2048 * 64");
  Pages pages(4);
  const std::int64_t most = 16'776'960;
  const auto selects = [&](std::int64_t k) {
    pages.indices = Tensor(at(1), DType::kI32, {4, k});
    pages.out = Tensor(at(3), DType::kI64, {4, k});
    return f.error(pages.args());
  };
  CHECK(selects(most).empty());
  CHECK(selects(most + 1) == "filter_topk_pages: k must be at most 16776960, found 16776961");
  pages = Pages(4);
  pages.page_size = 0;
  CHECK(has(f.error(pages.args()), "page_size must be at least 1, found 0"));
}

TEST_CASE("filter_topk_pages has a thread for each position, in CTAs that are narrow while few") {
  Fixture f("filter_topk_pages");
  const auto [rows, threads] = GENERATE(table<std::int64_t, std::uint32_t>(
      {{0, 32}, {1, 32}, {2, 32}, {3, 64}, {8, 64}, {9, 256}, {1000, 256}}));
  CAPTURE(rows);
  CHECK(f.error(Pages(rows).args()).empty());
  CHECK(f.geometry().block == Dim3{threads, 1, 1});
  CHECK(f.geometry().grid == Dim3{static_cast<std::uint32_t>(rows), 2048 / threads, 1});
}

struct Schedule {
  explicit Schedule(std::int64_t requests, std::int64_t partitions = 132)
      : meta(at(0), DType::kI32, {partitions, 8}),
        splits(at(1, 4), DType::kI32, {requests + 1}),
        lengths(at(2, 4), DType::kI32, {requests}) {}
  std::vector<Arg> dense() const {
    return {meta, splits, Arg(), Arg(), lengths, block, overhead, topk, Arg()};
  }
  Tensor meta, splits, lengths;
  std::int64_t block = 64;
  std::int64_t overhead = 5;
  std::int64_t topk = -1;
};

TEST_CASE("flashmla_sched_meta takes lengths or, when sparse, none at all") {
  Fixture f("flashmla_sched_meta");
  Schedule schedule(4096);
  CHECK(f.error(schedule.dense()).empty());
  CHECK(f.geometry().grid == Dim3{});
  CHECK(f.geometry().block.x == 1024);
  CHECK(f.geometry().dynamic_shared_bytes == 4 * (2 * 4096 + 1 + 2 * 133));
  CHECK(f.error({schedule.meta, schedule.splits, Arg(), Arg(), Arg(), 64, 5, 2048, 512}).empty());
  CHECK(f.error({schedule.meta, schedule.splits, Arg(), Arg(), Arg(), 64, 5, -1, Arg()}) ==
        "flashmla_sched_meta: a dense schedule (topk = -1) needs seqlens_k, found none");
  CHECK(has(f.error({schedule.meta, schedule.splits, Arg(), Arg(), Arg(), 64, 5, 1, -1}),
            "extra_topk must not be negative"));
  schedule.topk = -2;
  CHECK(has(f.error(schedule.dense()), "topk must be -1 (dense) or not negative, found -2"));
  schedule.topk = 0;
  schedule.block = 0;
  CHECK(has(f.error(schedule.dense()), "block_size_n must be at least 1"));
  schedule.block = 1;
  schedule.overhead = -1;
  CHECK(has(f.error(schedule.dense()), "fixed_overhead_num_blocks must not be negative"));
  schedule.lengths = Tensor(at(2), DType::kI32, {4095});
  CHECK(has(f.error(schedule.dense()), "n-1 = 4096"));
}

TEST_CASE("flashmla_sched_meta wants a request and a partition, and what fits in shared memory") {
  Fixture f("flashmla_sched_meta");
  CHECK(has(f.error(Schedule(0).dense()), "at least 2, found 1"));
  CHECK(has(f.error(Schedule(1, 0).dense()), "at least 1, found 0"));
  CHECK(f.error(Schedule(1, 1).dense()).empty());
  CHECK(f.geometry().block.x == 64);
  CHECK(f.error(Schedule(56'000).dense()).empty());
  CHECK(f.geometry().dynamic_shared_bytes == 4 * (56'000 + 1 + 2 * 133));  // No room for a table.
  CHECK(has(f.error(Schedule(58'000).dense()), "do not fit in shared memory"));
  CHECK(has(f.error(Schedule(1, std::int64_t{1} << 31).dense()), "at most 2147483647"));
  CHECK(has(f.error(Schedule(1, 2'000'000'000).dense()), "do not fit in shared memory"));
  f.target = "sm_120a";
  CHECK(f.error(Schedule(23'000).dense()).empty());
  CHECK(has(f.error(Schedule(57'000).dense()), "do not fit in shared memory"));
}

}  // namespace
}  // namespace kiln::registry
