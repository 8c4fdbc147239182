#include "tools/progress.hpp"

#include <string>

#include "tests/support/catch.hpp"

namespace kiln::tools {
namespace {

using std::chrono::seconds;

TEST_CASE("A duration reads as a clock does") {
  CHECK(clock_text(seconds(0)) == "0:00");
  CHECK(clock_text(seconds(7)) == "0:07");
  CHECK(clock_text(seconds(750)) == "12:30");
  CHECK(clock_text(seconds(3 * 3600 + 5 * 60 + 9)) == "3:05:09");
}

TEST_CASE("There is no rate before the first step, nor when no time has passed") {
  const Pace::Clock::time_point start;
  Pace pace(start);
  CHECK_FALSE(pace.rate());
  CHECK(pace.text(0, 10) == "");
  pace.step(start);
  CHECK_FALSE(pace.rate());
  CHECK(pace.text(1, 10) == "");
}

TEST_CASE("The time left follows from the rate") {
  const Pace::Clock::time_point start;
  Pace pace(start);
  pace.step(start + seconds(2));
  CHECK(pace.text(1, 31) == "0.5/s, 1:00 left");
  pace.step(start + seconds(4));
  CHECK(pace.text(2, 2) == "0.5/s, 0:00 left");
}

TEST_CASE("Many steps that took no time are soon forgotten") {
  const Pace::Clock::time_point start;
  Pace pace(start);
  for (int i = 0; i < 10000; ++i) {
    pace.step(start + seconds(1));
  }
  for (int i = 0; i < 64; ++i) {
    pace.step(start + seconds(3 + 2 * i));
  }
  CHECK(*pace.rate() == Approx(0.5));
}

}  // namespace
}  // namespace kiln::tools
