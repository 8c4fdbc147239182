#include "trait_registry/footprint.hpp"

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::registry {
namespace {

struct Strided {
  std::uint64_t begin;
  std::int64_t element;
  std::vector<Repeat> axes;
};

Footprint footprint(const Strided& strided) {
  std::array<Repeat, Tensor::kMaxRank> repeats{};
  std::copy(strided.axes.begin(), strided.axes.end(), repeats.begin());
  const auto result = make_footprint(strided.begin, strided.element, repeats,
                                     static_cast<int>(strided.axes.size()));
  REQUIRE(result);
  return *result;
}

// Every byte, one by one, as often as an element covers it.
std::multiset<std::uint64_t> bytes(const Strided& strided) {
  std::vector<std::uint64_t> starts{strided.begin};
  for (const Repeat& axis : strided.axes) {
    std::vector<std::uint64_t> next;
    for (std::int64_t i = 0; i < axis.count; ++i) {
      for (const std::uint64_t start : starts) {
        next.push_back(start + static_cast<std::uint64_t>(i * axis.stride));
      }
    }
    starts = std::move(next);
  }
  std::multiset<std::uint64_t> result;
  for (const std::uint64_t start : starts) {
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(strided.element); ++i) {
      result.insert(start + i);
    }
  }
  return result;
}

bool brute_force_share(const Strided& a, const Strided& b) {
  const std::multiset<std::uint64_t> of_a = bytes(a);
  const std::multiset<std::uint64_t> of_b = bytes(b);
  return std::any_of(of_a.begin(), of_a.end(),
                     [&](std::uint64_t at) { return of_b.count(at) > 0; });
}

bool brute_force_self_overlap(const Strided& a) {
  const std::multiset<std::uint64_t> all = bytes(a);
  return std::set(all.begin(), all.end()).size() != all.size();
}

class RandomStrided {
 public:
  explicit RandomStrided(unsigned seed) : generator_(seed) {}

  Strided next(int max_rank, std::int64_t max_count, std::int64_t max_stride) {
    Strided result{1000 + static_cast<std::uint64_t>(pick(0, 200)), pick(1, 4), {}};
    const std::int64_t rank = pick(0, max_rank);
    for (std::int64_t i = 0; i < rank; ++i) {
      result.axes.push_back({pick(1, max_count), pick(0, max_stride)});
    }
    return result;
  }

 private:
  std::int64_t pick(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(generator_);
  }
  std::mt19937 generator_;
};

TEST_CASE("Sharing a byte is decided as by comparing all bytes, on random strided tensors") {
  RandomStrided random(1);
  int wrong = 0;
  int shared = 0;
  for (int i = 0; i < 20000; ++i) {
    const Strided a = random.next(4, 5, 60);
    const Strided b = random.next(4, 5, 60);
    const bool expected = brute_force_share(a, b);
    wrong += share_a_byte(footprint(a), footprint(b)) != expected;
    wrong += share_a_byte(footprint(b), footprint(a)) != expected;
    shared += expected ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(shared > 2000);  // Neither answer is rare.
  CHECK(shared < 18000);
}

TEST_CASE("Sharing a byte is decided exactly for two sparse axes, where residues decide") {
  RandomStrided random(2);
  int wrong = 0;
  int shared = 0;
  for (int i = 0; i < 5000; ++i) {
    const Strided a = random.next(1, 40, 400);
    const Strided b = random.next(1, 40, 400);
    const bool expected = brute_force_share(a, b);
    wrong += share_a_byte(footprint(a), footprint(b)) != expected;
    shared += expected ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(shared > 300);
}

TEST_CASE("Overlapping itself is decided as by comparing all bytes, on random strided tensors") {
  RandomStrided random(3);
  int wrong = 0;
  int overlapping = 0;
  for (int i = 0; i < 10000; ++i) {
    const Strided a = random.next(3, 5, 60);
    const bool expected = brute_force_self_overlap(a);
    wrong += overlaps_itself(footprint(a)) != expected;
    overlapping += expected ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(overlapping > 1000);
  CHECK(overlapping < 9000);
}

TEST_CASE("The span and the density of a tensor are those of its bytes") {
  RandomStrided random(4);
  int wrong = 0;
  for (int i = 0; i < 5000; ++i) {
    const Strided a = random.next(3, 4, 20);
    const std::multiset<std::uint64_t> all = bytes(a);
    const std::set<std::uint64_t> distinct(all.begin(), all.end());
    const Footprint of_a = footprint(a);
    const auto span = static_cast<std::uint64_t>(of_a.span);
    wrong += of_a.begin != *distinct.begin() || of_a.begin + span - 1 != *distinct.rbegin();
    wrong += of_a.dense && distinct.size() != span;
    // Dense is promised for what does not overlap itself.
    wrong += !of_a.dense && distinct.size() == span && all.size() == distinct.size();
  }
  CHECK(wrong == 0);
}

TEST_CASE("Interleaved columns of one buffer share nothing; one column more does") {
  const std::int64_t rows = 1000;
  const Strided left{4096, 256, {{rows, 1024}}};
  const Strided right{4096 + 256, 768, {{rows, 1024}}};
  const Strided wider{4096 + 255, 768, {{rows, 1024}}};
  CHECK(spans_intersect(footprint(left), footprint(right)));
  CHECK_FALSE(share_a_byte(footprint(left), footprint(right)));
  CHECK(share_a_byte(footprint(left), footprint(wider)));
}

// Enumerating rows would take centuries here: these return at once or the test never ends.
TEST_CASE("Tensors with very many rows of different strides are decided at once") {
  const std::int64_t rows = std::int64_t{1} << 30;
  const std::uint64_t base = 1U << 20;
  // Strides with a common factor of 64: residues modulo 64 never meet.
  const Strided a{base, 16, {{rows, 64 * 1000003LL}}};
  const Strided b{base + 16, 48, {{rows, 64 * 999983LL}}};
  CHECK_FALSE(share_a_byte(footprint(a), footprint(b)));
  // One byte wider, and some pair of rows meets.
  const Strided c{base + 16, 49, {{rows, 64 * 999983LL}}};
  CHECK(share_a_byte(footprint(a), footprint(c)));
}

TEST_CASE("A tensor larger than an address space has no footprint") {
  const std::array<Repeat, Tensor::kMaxRank> huge{
      Repeat{std::int64_t{1} << 31, std::int64_t{1} << 31}};
  CHECK_FALSE(make_footprint(0, 2, huge, 1));
  const std::array<Repeat, Tensor::kMaxRank> overflow{
      Repeat{std::int64_t{1} << 40, std::int64_t{1} << 40}};
  CHECK_FALSE(make_footprint(0, 2, overflow, 1));
}

TEST_CASE("Nothing intersects an empty span") {
  const Extent empty{};
  const Extent some{0, 10, true};
  CHECK_FALSE(spans_intersect(empty, some));
  CHECK_FALSE(spans_intersect(some, empty));
  CHECK(spans_intersect(some, Extent{9, 1, true}));
  CHECK_FALSE(spans_intersect(some, Extent{10, 1, true}));
}

}  // namespace
}  // namespace kiln::registry
