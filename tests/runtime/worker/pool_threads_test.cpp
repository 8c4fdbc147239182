#include <atomic>
#include <thread>

#include "runtime/worker/pool.hpp"
#include "tests/runtime/worker/workers.hpp"
#include "tests/support/catch.hpp"

namespace kiln::runtime {
namespace {

constexpr int kThreads = 8;
constexpr int kKernels = 3;

// Compiles several kernels on each of several threads; gives how many came out right.
template <class Extra>
int compile_on_threads(const WorkerPool& pool, const Extra& extra) {
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int kernel = 0; kernel < kKernels; ++kernel) {
        const int number = thread * kKernels + kernel + 2;
        const auto unit = test::make_unit(test::kScale, "scale<" + std::to_string(number) + ">");
        const auto compiled = pool.compile({&unit, 1});
        const std::string symbol = "_Z5scaleILi" + std::to_string(number) + "EEvPf";
        right += compiled && compiled->kernels.front().symbol == symbol ? 1 : 0;
      }
    });
  }
  extra();
  for (std::thread& thread : threads) {
    thread.join();
  }
  return right;
}

TEST_CASE("Eight threads share a few workers, and each gets its own kernel") {
  WorkerPoolOptions options = test::worker_options();
  options.max_workers = 3;
  options.recycle_after = 4;
  const auto pool = test::start_pool(options);
  CHECK(compile_on_threads(*pool, [] {}) == kThreads * kKernels);
  CHECK(pool->pids().size() <= 3);
  CHECK(pool->counters().lost == 0);
}

TEST_CASE("The number of workers changes while eight threads compile") {
  WorkerPoolOptions options = test::worker_options();
  options.linger = std::chrono::milliseconds(1);
  const auto pool = test::start_pool(options);
  const int right = compile_on_threads(*pool, [&] {
    for (const unsigned workers : {4U, 1U, 0U, 2U, 3U, 1U}) {
      pool->set_max_workers(workers);
      static_cast<void>(pool->pids());
      const unsigned before = pool->counters().started;
      test::comes_true([&] { return pool->counters().started > before || pool->pids().empty(); });
    }
  });
  CHECK(right == kThreads * kKernels);
}

TEST_CASE("cancel lets every one of eight threads go") {
  WorkerPoolOptions options = test::worker_options();
  options.max_workers = 2;
  const auto pool = test::start_pool(options);
  const int right = compile_on_threads(*pool, [&] { pool->cancel(); });
  CHECK(right < kThreads * kKernels);
  CHECK(pool->pids().empty());
  CHECK_FALSE(test::has_children());
}

}  // namespace
}  // namespace kiln::runtime
