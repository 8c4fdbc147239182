#include "runtime/look_ahead.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <thread>

#include "tests/support/catch.hpp"

namespace kiln::runtime {
namespace {

using Values = LookAhead<std::unique_ptr<std::size_t>>;

std::unique_ptr<std::size_t> square(std::size_t i) {
  return std::make_unique<std::size_t>(i * i);
}

}  // namespace

TEST_CASE("Values come in their order, however many threads make them, each made once") {
  constexpr std::size_t kCount = 1000;
  for (const std::size_t hands : {0U, 1U, 4U}) {
    std::atomic<std::size_t> made = 0;
    Values values(kCount, hands, [&](std::size_t i) {
      ++made;
      return square(i);
    });
    for (std::size_t i = 0; i < kCount; ++i) {
      REQUIRE(*values.take() == i * i);
    }
    CHECK(made == kCount);
  }
}

TEST_CASE("No more values are ahead than there is room for") {
  std::atomic<std::size_t> made = 0;
  Values values(1000, 3, [&](std::size_t i) {
    ++made;
    return square(i);
  });
  while (made < Values::kMostAhead) {
    std::this_thread::yield();
  }
  for (std::size_t taken = 1; taken < 100; ++taken) {
    values.take();
    CHECK(made <= taken + Values::kMostAhead);
  }
}

TEST_CASE("Whoever leaves early waits for the values under way alone") {
  std::atomic<std::size_t> made = 0;
  {
    Values values(1000, 3, [&](std::size_t i) {
      ++made;
      return square(i);
    });
    CHECK(*values.take() == 0);
  }
  CHECK(made <= 1 + Values::kMostAhead);
}

TEST_CASE("A value whose making throws is an empty one, on whichever thread, and ends nothing") {
  constexpr std::size_t kCount = 300;
  for (const std::size_t hands : {0U, 2U}) {
    Values values(kCount, hands, [&](std::size_t i) {
      if (i % 3 == 1) {
        throw std::bad_alloc();
      }
      return square(i);
    });
    for (std::size_t i = 0; i < kCount; ++i) {
      CAPTURE(hands, i);
      CHECK((values.take() == nullptr) == (i % 3 == 1));
    }
  }
}

}  // namespace kiln::runtime
