#include "reference/sched_meta.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

using Words = std::vector<std::int32_t>;

Schedule dense(Words lengths, std::int64_t partitions, std::int64_t block = 64,
               std::int64_t overhead = 5) {
  ScheduleInput input{static_cast<std::int64_t>(lengths.size()), partitions, block, overhead};
  input.seqlens_k = std::move(lengths);
  return flashmla_sched_meta(input);
}

TEST_CASE("One request is cut into one split for each partition") {
  // 10 blocks and an overhead of 2 on 3 partitions: each pays for 4 and the overhead.
  const Schedule schedule = dense({640}, 3, 64, 2);
  CHECK(schedule.num_splits == Words{0, 3});
  CHECK(schedule.meta == Words{0, 0, 0, 4,  0, 1, 1, 0,  //
                               0, 0, 4, 8,  1, 1, 1, 0,  //
                               0, 0, 8, 10, 2, 1, 1, 0});
}

TEST_CASE("A partition takes whole requests and leaves one open") {
  // 2 + 1, 1 + 1 and 4 + 1 blocks on two partitions, which pay for 5 and the overhead each.
  const Schedule schedule = dense({128, 1, 256}, 2, 64, 1);
  CHECK(schedule.num_splits == Words{0, 1, 2, 3});
  CHECK(schedule.meta == Words{0, 1, 0, 1, 0, 0, 0, 0,  //
                               2, 2, 0, 4, 0, 0, 0, 0});
  const Schedule open = dense({128, 1, 320}, 2, 64, 0);
  CHECK(open.num_splits == Words{0, 1, 2, 4});
  CHECK(open.meta == Words{0, 2, 0, 1, 0, 0, 1, 0,  //
                           2, 2, 1, 5, 1, 1, 1, 0});
}

TEST_CASE("Partitions without work point behind the last request, at the first one's last block") {
  const Schedule schedule = dense({130, 1}, 4, 64, 100);
  CHECK(schedule.num_splits == Words{0, 1, 2});
  CHECK(Words(schedule.meta.begin() + 16, schedule.meta.end()) ==
        Words{2, 1, 2, 1, 0, 0, 0, 0, 2, 1, 2, 1, 0, 0, 0, 0});
}

TEST_CASE("A dense request of no length ends at block 0, a sparse one counts as one position") {
  CHECK(dense({0}, 1).meta == Words{0, 0, 0, 0, 0, 0, 0, 0});
  ScheduleInput sparse{1, 1, 64, 5, 2048};
  sparse.topk_length = Words{0};
  CHECK(flashmla_sched_meta(sparse).meta == Words{0, 0, 0, 1, 0, 0, 0, 0});
}

TEST_CASE("An extra cache begins with a block of its own") {
  ScheduleInput input{1, 1, 64, 5, 65, 1};
  CHECK(flashmla_sched_meta(input).meta[3] == 3);
  input.extra_topk_length = Words{64};
  CHECK(flashmla_sched_meta(input).meta[3] == 3);
  input.extra_topk_length = Words{65};
  CHECK(flashmla_sched_meta(input).meta[3] == 4);
  input.extra_topk = 0;
  CHECK(flashmla_sched_meta(input).meta[3] == 2);
}

// The arithmetic of kernel_templates/attention/flashmla_sched_meta.cuh, whose head says why.
struct Places {
  explicit Places(const Words& lengths, std::int64_t partitions, std::int64_t block,
                  std::int64_t overhead) {
    for (const std::int32_t length : lengths) {
      sums.push_back(sums.back() + std::max(length - 1, 0) / block + 1 + overhead);
    }
    const std::int64_t total = sums.back();
    const std::int64_t step = (total + partitions - 1) / partitions;
    for (std::int64_t p = 0; p < partitions; ++p) {
      const std::int64_t next = std::min(begins.back() + step, total);
      const auto above =
          std::upper_bound(sums.begin(), sums.end(), std::min(next + overhead, total));
      begins.push_back(std::max(next, *(above - 1)));
      fresh.push_back(fresh.back() + (*(above - 1) >= next ? 1 : 0));
    }
  }
  /// The last request that begins at `place` or before it.
  std::int64_t request_of(std::int64_t place) const {
    return std::upper_bound(sums.begin(), sums.end(), place) - sums.begin() - 1;
  }
  std::int64_t splits_through(std::int64_t request) const {
    const auto last =
        std::lower_bound(begins.begin(), begins.end(), sums[static_cast<std::size_t>(request) + 1]);
    const std::int64_t partition = last - begins.begin() - 1;
    return partition + request + 1 - fresh[static_cast<std::size_t>(partition)];
  }

  std::vector<std::int64_t> sums{0};
  std::vector<std::int64_t> begins{0};
  std::vector<std::int64_t> fresh{0};
};

TEST_CASE("Places and searches give what the walk gives") {
  std::mt19937 generator(1);
  for (int round = 0; round < 3000; ++round) {
    const int longest = std::vector<int>{1, 5, 200, 5000, 131'072}[generator() % 5];
    Words lengths(generator() % 300 + 1);
    std::generate(lengths.begin(), lengths.end(), [&] {
      return static_cast<std::int32_t>(generator() % static_cast<unsigned>(longest + 1));
    });
    const auto below = [&](unsigned end) { return static_cast<std::int64_t>(generator() % end); };
    const std::int64_t partitions = below(264) + 1;
    const std::int64_t block = below(2) == 0 ? 64 : below(100) + 1;
    const std::int64_t overhead = below(12);
    const Schedule schedule = dense(lengths, partitions, block, overhead);
    const Places places(lengths, partitions, block, overhead);
    CAPTURE(round, lengths.size(), partitions, block, overhead);
    for (std::size_t p = 0; p < static_cast<std::size_t>(partitions); ++p) {
      const std::int64_t begin = places.begins[p];
      const std::int64_t request = places.request_of(begin);
      REQUIRE(schedule.meta[p * 8] == request);
      if (begin != places.sums.back()) {
        REQUIRE(schedule.meta[p * 8 + 2] == begin - places.sums[static_cast<std::size_t>(request)]);
      }
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      REQUIRE(schedule.num_splits[i + 1] == places.splits_through(static_cast<std::int64_t>(i)));
    }
  }
}

}  // namespace
}  // namespace kiln::reference
