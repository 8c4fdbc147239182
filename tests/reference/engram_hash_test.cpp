#include "reference/engram_hash.hpp"

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

constexpr std::uint64_t kTwo63 = std::uint64_t{1} << 63U;

// How many remainders by p are wrong, over the dividends where the estimate is nearest to a whole
// number of divisors, and the ends of the range.
int wrong_edges(std::uint64_t p) {
  const std::uint64_t reciprocal = reciprocal_of(p);
  int wrong = 0;
  const auto check = [&](std::uint64_t h) {
    wrong += remainder(h, p, reciprocal) != h % p ? 1 : 0;
  };
  const std::uint64_t most = (kTwo63 - 1) / p;  // Multiples of p below 2^63.
  for (const std::uint64_t multiple : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2},
                                       most / 3, most / 2, most - (most > 0 ? 1 : 0), most}) {
    for (const std::uint64_t beside : {std::uint64_t{0}, std::uint64_t{1}, p / 2, p - 1}) {
      check(multiple * p + beside);
      check(multiple * p - beside);  // Below 0, a number near 2^64: right as well.
    }
  }
  for (std::uint64_t h = 0; h < 4; ++h) {
    check(h);
    check(kTwo63 - 1 - h);
    check(kTwo63 + h);
    check(~h);
  }
  for (unsigned bit = 0; bit < 64; ++bit) {
    check(std::uint64_t{1} << bit);
    check((std::uint64_t{1} << bit) - 1);
  }
  return wrong;
}

TEST_CASE("The remainder is right at every edge, for divisors of every size") {
  std::mt19937_64 generator(1);
  for (std::uint64_t p = 1; p < 2000; ++p) {
    REQUIRE(wrong_edges(p) == 0);
  }
  for (unsigned bit = 1; bit < 63; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    for (const std::uint64_t p :
         {power - 1, power, power + 1, power + generator() % power, power + generator() % power}) {
      CAPTURE(p);
      REQUIRE(wrong_edges(p) == 0);
    }
  }
  for (std::uint64_t p = kTwo63 - 50; p < kTwo63; ++p) {
    REQUIRE(wrong_edges(p) == 0);
  }
}

// KILN_DIVIDENDS says how many. The device tries 10^9 of its own on every GPU run
// (tests/gpu/engram_reciprocals_test.cpp).
TEST_CASE("The remainder is right for random dividends and divisors of every size") {
  const char* const asked = std::getenv("KILN_DIVIDENDS");
  const std::uint64_t count = asked != nullptr ? std::stoull(asked) : 4'000'000;
  std::mt19937_64 generator(2);
  std::uint64_t wrong = 0;
  std::uint64_t p = 1;
  std::uint64_t reciprocal = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 64 == 0) {
      p = (generator() >> (1 + generator() % 63)) | 1U;
      reciprocal = reciprocal_of(p);
    }
    const std::uint64_t h = generator() >> 1U;
    wrong += remainder(h, p, reciprocal) != h % p ? 1U : 0U;
  }
  CHECK(wrong == 0);
}

// Two layers of trigrams with two heads. Compressed ids are 10 times the token's.
EngramTables small_tables() {
  EngramTables tables;
  tables.layers = 2;
  tables.order = 3;
  tables.heads = 2;
  for (std::int64_t token = 0; token < 100; ++token) {
    tables.token_map.push_back(10 * token);
  }
  tables.multipliers = {3, 5, 7, 11, 13, 17};
  tables.primes = {101, 103, 107, 109, 113, 127, 131, 137};
  tables.offsets = {0, 1000, 2000, 3000, 4000, 5000, 6000, 7000};
  tables.pad_id = 1;
  return tables;
}

// The ids of one token from its three compressed ids, by hand.
std::vector<std::int64_t> ids_of(std::int64_t a, std::int64_t b, std::int64_t c) {
  const std::int64_t two0 = a * 3 ^ b * 5;
  const std::int64_t three0 = two0 ^ c * 7;
  const std::int64_t two1 = a * 11 ^ b * 13;
  const std::int64_t three1 = two1 ^ c * 17;
  return {two0 % 101,        two0 % 103 + 1000, three0 % 107 + 2000, three0 % 109 + 3000,
          two1 % 113 + 4000, two1 % 127 + 5000, three1 % 131 + 6000, three1 % 137 + 7000};
}

std::vector<std::int64_t> ids_at(const EngramHashes& hashes, std::ptrdiff_t t) {
  return {hashes.ids.begin() + t * 8, hashes.ids.begin() + t * 8 + 8};
}

EngramStep decode(std::int64_t token, std::int64_t position) {
  EngramStep step;
  step.input_ids = {token};
  step.positions = {position};
  step.history = {7, 8};  // Oldest first.
  return step;
}

TEST_CASE("A decoded token looks back into its history, newest last") {
  const EngramHashes hashes = engram_hash_ids(small_tables(), decode(9, 5));
  CHECK(hashes.tokens == std::vector<std::int32_t>{9, 8, 7});
  CHECK(hashes.ids == ids_of(90, 80, 70));
}

TEST_CASE("What lies before position 0 is blocked, though its token is told") {
  EngramHashes hashes = engram_hash_ids(small_tables(), decode(9, 1));
  CHECK(hashes.tokens == std::vector<std::int32_t>{9, 8, 7});
  CHECK(hashes.ids == ids_of(90, 80, 1));
  hashes = engram_hash_ids(small_tables(), decode(9, 0));
  CHECK(hashes.ids == ids_of(90, 1, 1));
}

TEST_CASE("An image token blocks itself and what is older, and stands for all from the shift on") {
  EngramStep step = decode(9, 5);
  step.image_token_id = 42;
  step.mm_pad_shift = 90;
  CHECK(engram_hash_ids(small_tables(), step).ids == ids_of(90, 80, 70));
  step.history = {7, 95};
  EngramHashes hashes = engram_hash_ids(small_tables(), step);
  CHECK(hashes.tokens == std::vector<std::int32_t>{9, 42, 7});
  CHECK(hashes.ids == ids_of(90, 1, 1));
  step = decode(42, 5);
  step.image_token_id = 42;
  step.mm_pad_shift = 90;
  CHECK(engram_hash_ids(small_tables(), step).ids == ids_of(1, 1, 1));
}

TEST_CASE("Padding is token 0 and blocked, and reads as an image when 0 does") {
  EngramStep step = decode(9, 5);
  step.num_real = 0;
  EngramHashes hashes = engram_hash_ids(small_tables(), step);
  CHECK(hashes.tokens == std::vector<std::int32_t>{0, 0, 0});
  CHECK(hashes.ids == ids_of(1, 1, 1));
  step.image_token_id = 42;
  step.mm_pad_shift = 0;
  CHECK(engram_hash_ids(small_tables(), step).tokens == std::vector<std::int32_t>{42, 42, 42});
}

TEST_CASE("An id outside the map reads the nearest one in it") {
  CHECK(engram_hash_ids(small_tables(), decode(-5, 5)).ids == ids_of(0, 80, 70));
  CHECK(engram_hash_ids(small_tables(), decode(1'000'000, 5)).ids == ids_of(990, 80, 70));
}

TEST_CASE("In a run, tokens look back at each other and then into the history of their slot") {
  EngramStep step;
  step.input_ids = {1, 2, 3, 4, 5, 6};
  step.positions = {9, 10, 11, 20, 21, 22};
  step.history = {70, 71, 72, 73, 74, 75};
  step.req_slots = {{2, 0}};
  step.block = 3;
  const EngramHashes verify = engram_hash_ids(small_tables(), step);
  CHECK(ids_at(verify, 0) == ids_of(10, 750, 740));
  CHECK(ids_at(verify, 1) == ids_of(20, 10, 750));
  CHECK(ids_at(verify, 2) == ids_of(30, 20, 10));
  CHECK(ids_at(verify, 3) == ids_of(40, 710, 700));

  step.block.reset();
  step.row = {{0, 0, 0, 1, 1, 1}};
  step.starts = {{0, 3}};
  CHECK(engram_hash_ids(small_tables(), step).ids == verify.ids);

  step.row.reset();
  step.starts.reset();
  step.qo_indptr = {{0, 3, 6}};
  CHECK(engram_hash_ids(small_tables(), step).ids == verify.ids);
}

TEST_CASE("Of ragged runs, empty ones have no token, and what is past the end is padding") {
  EngramStep step;
  step.input_ids = {1, 2, 3};
  step.positions = {9, 10, 11};
  step.history = {60, 61, 62, 63, 64, 65};
  step.qo_indptr = {{0, 0, 2, 2}};
  const EngramHashes hashes = engram_hash_ids(small_tables(), step);
  CHECK(ids_at(hashes, 0) == ids_of(10, 630, 620));
  CHECK(ids_at(hashes, 1) == ids_of(20, 10, 630));
  CHECK(ids_at(hashes, 2) == ids_of(1, 1, 1));
}

TEST_CASE("A decode step leaves its tokens in the histories of live rows") {
  const std::vector<std::int32_t> history = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> tokens = {9, 4, 3, 8, 2, 1, 7, 4, 3};
  CHECK(commit_decoded(3, history, tokens, {1, 0, 1}, {5, 6, 0}) ==
        std::vector<std::int32_t>{2, 8, 4, 9, 5, 6});
}

TEST_CASE("A verify step shifts accepted tokens into the history, as many as there are at most") {
  const std::vector<std::int32_t> history = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  CHECK(engram_commit_history(2, history, {11, 12, 13, 21, 22, 23, 31, 32, 33, 41, 42, 43},
                              {3, 0, 4, 1}, {1, 3, -2, 9}) ==
        std::vector<std::int32_t>{22, 23, 42, 43, 5, 6, 8, 11, 9, 10});
}

}  // namespace
}  // namespace kiln::reference
