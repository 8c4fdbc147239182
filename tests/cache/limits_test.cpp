#include "cache/limits.hpp"

#include "tests/support/catch.hpp"

namespace kiln::cache {

TEST_CASE("A size is a number of bytes, or one of units of 1024") {
  CHECK(parse_bytes("0") == std::uint64_t{0});
  CHECK(parse_bytes("123") == std::uint64_t{123});
  CHECK(parse_bytes("2K") == std::uint64_t{2048});
  CHECK(parse_bytes("2k") == std::uint64_t{2048});
  CHECK(parse_bytes("3M") == std::uint64_t{3} << 20);
  CHECK(parse_bytes("10G") == std::uint64_t{10} << 30);
  CHECK(parse_bytes("18446744073709551615") == UINT64_MAX);
  CHECK(parse_bytes("17179869183G"));
}

TEST_CASE("What is not a size is refused, and quoted") {
  for (const char* text : {"", "K", "-1", "+1", " 1", "1 ", "1.5G", "1KB", "1T", "0x10", "1d",
                           "18446744073709551616", "17179869184G"}) {
    CAPTURE(text);
    const auto parsed = parse_bytes(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().message.find(std::string("'") + text + "'") != std::string::npos);
  }
}

TEST_CASE("An age is a number of seconds, hours or days") {
  CHECK(parse_age("90") == std::chrono::seconds(90));
  CHECK(parse_age("2h") == std::chrono::seconds(7200));
  CHECK(parse_age("30d") == std::chrono::seconds(30 * 86400));
  for (const char* text :
       {"", "d", "-1", "1w", "1 d", "1D", "99999999999999", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_age(text));
  }
}

TEST_CASE("No limit and a limit of 0 are the same") {
  CHECK_FALSE(Limits{}.any());
  CHECK_FALSE(Limits{0, std::chrono::seconds(0)}.any());
  CHECK(Limits{1, {}}.any());
  CHECK(Limits{{}, std::chrono::seconds(1)}.any());
}

}  // namespace kiln::cache
