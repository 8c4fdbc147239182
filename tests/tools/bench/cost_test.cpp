#include "tools/bench/cost.hpp"

#include <cmath>

#include "tests/support/catch.hpp"

namespace kiln::tools::bench {

TEST_CASE("The floor is bytes over bandwidth, and never less than one graph node") {
  CHECK(floor_us(0, 4.3) == 0.5);
  CHECK(floor_us(2'000'000, 4.3) == 0.5);
  CHECK(std::abs(floor_us(43'000'000, 4.3) - 10) < 1e-9);
  CHECK(std::abs(floor_us(43'000'000, 8.6) - 5) < 1e-9);
}

TEST_CASE("Calls of up to 8 MiB keep one set, larger ones rotate among 256 MiB of sets") {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  CHECK(set_count(0) == 1);
  CHECK(set_count(8 * kMiB) == 1);
  CHECK(set_count(8 * kMiB + 1) == 32);
  CHECK(set_count(16 * kMiB) == 16);
  CHECK(set_count(100 * kMiB) == 3);
  CHECK(set_count(128 * kMiB) == 2);
  CHECK(set_count(1024 * kMiB) == 2);
}

}  // namespace kiln::tools::bench
