#include "c_api/expression.hpp"

#include <cstdint>
#include <map>

#include <kiln/error.hpp>

#include "tests/support/catch.hpp"

namespace kiln::c_api {
namespace {

using Symbols = std::map<std::string, std::int64_t>;

std::optional<std::int64_t> value_of(const char* text, const Symbols& symbols = {}) {
  return Expression::parse(text).evaluate(
      [](const void* context, const std::string& symbol) {
        return static_cast<const Symbols*>(context)->at(symbol);
      },
      &symbols);
}

std::string error_of(const char* text) {
  try {
    Expression::parse(text);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInvalidArgument);
    return error.what();
  }
  FAIL("\"" << text << "\" was taken");
  return {};
}

}  // namespace

TEST_CASE("An expression has the value that arithmetic gives it") {
  CHECK(value_of("7") == 7);
  CHECK(value_of("1 + 2 * 3 - 4") == 3);
  CHECK(value_of("(1 + 2) * 3 % 5") == 4);
  CHECK(value_of("20 / 3 / 2") == 3);
  CHECK(value_of("-7 / 2") == -3);
  CHECK(value_of("2 - -3") == 5);
  CHECK(value_of("min(4, 2) + max(4, 2)") == 6);
  CHECK(value_of("ceil_div(n, 256)", {{"n", 257}}) == 2);
  CHECK(value_of("ceil_div(0, 256)") == 0);
  CHECK(value_of("ceil_div(-3, 2)") == -1);
  CHECK(value_of("4*k", {{"k", 9}}) == 36);
}

TEST_CASE("An expression without a value has none, rather than a wrong one") {
  CHECK_FALSE(value_of("1 / n", {{"n", 0}}));
  CHECK_FALSE(value_of("1 % n", {{"n", 0}}));
  CHECK_FALSE(value_of("ceil_div(1, n)", {{"n", 0}}));
  CHECK_FALSE(value_of("n * 2", {{"n", INT64_MAX}}));
  CHECK_FALSE(value_of("n + 1", {{"n", INT64_MAX}}));
  CHECK_FALSE(value_of("-n", {{"n", INT64_MIN}}));
  CHECK_FALSE(value_of("n / -1", {{"n", INT64_MIN}}));
}

TEST_CASE("An expression names its symbols once, in the order of their use") {
  CHECK(Expression::parse("n * m + n").symbols() == std::vector<std::string>{"n", "m"});
  CHECK(Expression::parse("min(1, 2)").symbols().empty());
}

TEST_CASE("What is no expression is refused, with the text and the place") {
  for (const char* const text :
       {"", "1 +", "(1", "1)", "n n", "max(1)", "min 1", "@", "99999999999999999999", "1 2"}) {
    CHECK(error_of(text).find("expression \"" + std::string(text) + "\"") == 0);
  }
  CHECK(error_of("2 * ?").find("at \"?\"") != std::string::npos);
}

TEST_CASE("An expression can be neither so deep nor so long that reading it needs a deep stack") {
  const std::string parentheses = std::string(100000, '(') + "1" + std::string(100000, ')');
  CHECK(error_of(parentheses.c_str()).find("deep") != std::string::npos);
  CHECK(error_of((std::string(100000, '-') + "1").c_str()).find("deep") != std::string::npos);
  std::string sum = "1";
  for (int i = 0; i < 1000; ++i) {
    sum += "+1";
  }
  CHECK(value_of(sum.c_str()) == 1001);
}

}  // namespace kiln::c_api
