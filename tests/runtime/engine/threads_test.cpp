#include <atomic>
#include <barrier>
#include <thread>

#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {
namespace {

constexpr int kThreads = 8;

// Runs `body` with each thread's number on several threads that start together.
template <class Body>
void on_threads(const Body& body) {
  std::barrier start(kThreads);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      start.arrive_and_wait();
      body(thread);
    });
  }
}

}  // namespace

TEST_CASE("Threads that launch the same new kernel at once all launch, and it is loaded once") {
  for (int round = 0; round < 10; ++round) {
    ScaleMachine machine;
    Engine engine = machine.engine();
    std::atomic<int> failures{0};
    on_threads([&](int) {
      machine.fake().set_current(machine.context);
      try {
        ScaleCall().launch(engine);
      } catch (const Error&) {
        ++failures;
      }
    });
    CHECK(failures == 0);
    CHECK(machine.fake().launches().size() == kThreads);
    CHECK(machine.fake().count("cuLibraryLoadData") == 1);
  }
}

TEST_CASE("Threads launch many shapes while others still plan theirs, each with its own values") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  constexpr int kShapes = 200;  // Several growths of the plan cache.
  std::atomic<int> failures{0};
  on_threads([&](int thread) {
    machine.fake().set_current(machine.context);
    try {
      for (int i = 0; i < kShapes; ++i) {
        const int m = 1 + (i * 7 + thread * 31) % kShapes;
        ScaleCall(m).launch(engine);
      }
    } catch (const Error&) {
      ++failures;
    }
  });
  CHECK(failures == 0);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  CHECK(launches.size() == std::size_t{kThreads} * kShapes);
  std::size_t wrong = 0;
  for (const fake::Launch& launch : launches) {
    std::int32_t m = 0;
    std::memcpy(&m, launch.params.at(5).data(), sizeof(m));
    const auto blocks = static_cast<unsigned>(m >= 4 ? (m + 1) / 2 : m);
    wrong += launch.grid[0] == blocks ? 0U : 1U;
  }
  CHECK(wrong == 0);
  CHECK(machine.fake().count("cuLibraryLoadData") == 2);
}

TEST_CASE("An op may be registered while other threads launch") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  std::atomic<int> failures{0};
  on_threads([&](int thread) {
    machine.fake().set_current(machine.context);
    try {
      for (int i = 0; i < 20; ++i) {
        if (thread == 0) {
          engine.register_op(scale_op("scale_" + std::to_string(i)));
        }
        ScaleCall().launch(engine);
      }
    } catch (const Error&) {
      ++failures;
    }
  });
  CHECK(failures == 0);
}

}  // namespace kiln::test
