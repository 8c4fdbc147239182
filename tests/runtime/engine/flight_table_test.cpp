#include "runtime/flight_table.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "runtime/prefetcher.hpp"
#include "tests/support/catch.hpp"

namespace kiln::runtime {
namespace {

const cache::Digest kKey{1, 2};

std::shared_ptr<const cache::Entry> entry() {
  return std::make_shared<const cache::Entry>();
}

// Joins on several threads while this one leads, and gives what each of them got.
std::vector<FlightTable::Joined> followers(FlightTable& table, std::size_t count,
                                           const std::function<void()>& land) {
  std::vector<FlightTable::Joined> joined(count);
  std::atomic<std::size_t> begun{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        ++begun;
        FlightTable::Joined mine = table.join(kKey);
        joined[i].entry = mine.entry;
        joined[i].failure = mine.failure;
      });
    }
    while (begun < count) {
      std::this_thread::yield();
    }
    land();
  }
  return joined;
}

}  // namespace

TEST_CASE("One thread makes a kernel and those that wait get it") {
  FlightTable table;
  FlightTable::Joined lead = table.join(kKey);
  REQUIRE(lead.flight);
  CHECK_FALSE(table.try_lead(kKey));
  const auto made = entry();
  const auto joined = followers(table, 8, [&] { lead.flight->land(made, true); });
  for (const FlightTable::Joined& each : joined) {
    CHECK(each.entry == made);
  }
  CHECK(table.kept(kKey) == made);
  CHECK_FALSE(table.try_lead(kKey));
}

TEST_CASE("A kernel that cannot be made is remembered until that is forgotten") {
  FlightTable table;
  FlightTable::Joined lead = table.join(kKey);
  const Failure broken{ErrorCode::kCompileFailed, "no"};
  const auto joined = followers(table, 8, [&] { lead.flight->fail(broken); });
  for (const FlightTable::Joined& each : joined) {
    REQUIRE(each.failure);
    CHECK(each.failure->message == "no");
  }
  CHECK(table.join(kKey).failure);
  CHECK_FALSE(table.try_lead(kKey));
  table.forget_failures();
  CHECK(table.try_lead(kKey));
}

TEST_CASE("A flight that ends with nothing lets the next thread try") {
  FlightTable table;
  std::optional<FlightTable::Flight> lead = std::move(table.join(kKey).flight);
  std::atomic<int> led{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { led += table.join(kKey).flight ? 1 : 0; });
    }
    lead.reset();
  }
  CHECK(led == 4);
}

TEST_CASE("A forked child does not wait for what its parent's thread makes") {
  FlightTable table;
  const FlightTable::Joined mine = table.join(kKey);
  REQUIRE(mine.flight);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // It would wait for ever.
    const bool led = table.join(kKey).flight.has_value();
    _exit(led && table.try_lead(kKey) ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK_FALSE(table.try_lead(kKey));
}

TEST_CASE("Entries that are stored elsewhere are not kept") {
  FlightTable table;
  table.join(kKey).flight->land(entry(), false);
  CHECK(table.kept(kKey) == nullptr);
  CHECK(table.join(kKey).flight);
}

TEST_CASE("A prefetcher runs tasks side by side and gives their failures") {
  std::atomic<int> ran{0};
  std::vector<std::shared_future<void>> futures;
  {
    Prefetcher prefetcher;
    for (int i = 0; i < 100; ++i) {
      futures.push_back(prefetcher.add(
          [&ran, i]() -> Status {
            ++ran;
            return i % 2 == 0 ? Status() : fail(ErrorCode::kIo, "odd");
          },
          4));
    }
    for (std::size_t i = 0; i < futures.size(); ++i) {
      if (i % 2 == 0) {
        CHECK_NOTHROW(futures[i].get());
      } else {
        CHECK_THROWS_AS(futures[i].get(), Error);
      }
    }
  }
  CHECK(ran == 100);
}

}  // namespace kiln::runtime
