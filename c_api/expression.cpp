#include "c_api/expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "c_api/guard.hpp"

namespace kiln::c_api {
namespace {

using Code = Expression::Code;
using Step = Expression::Step;

constexpr std::pair<std::string_view, Code> kFunctions[] = {
    {"min", Code::kMin}, {"max", Code::kMax}, {"ceil_div", Code::kCeilDiv}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Recursive descent into postfix form.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<Step> run() {
    sum();
    if (peek() != '\0') {
      wrong("an operator");
    }
    return std::move(steps_);
  }

 private:
  [[noreturn]] void wrong(const char* expected) const {
    refuse(fmt::format("expression \"{}\": expected {} at \"{}\"", text_, expected,
                       text_.substr(at_)));
  }

  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    const bool there = peek() == c;
    at_ += there ? 1U : 0U;
    return there;
  }
  void expect(char c, const char* name) {
    if (!accept(c)) {
      wrong(name);
    }
  }

  void push(Step step) {
    if (++waiting_ > Expression::kMaxDepth) {
      refuse(fmt::format("expression \"{}\": too long", text_));
    }
    steps_.push_back(std::move(step));
  }
  void apply(Code code) {
    --waiting_;
    steps_.push_back({code});
  }

  void sum() {
    product();
    for (;;) {
      if (accept('+')) {
        product();
        apply(Code::kAdd);
      } else if (accept('-')) {
        product();
        apply(Code::kSub);
      } else {
        return;
      }
    }
  }

  void product() {
    value();
    for (;;) {
      const char c = peek();
      if (c != '*' && c != '/' && c != '%') {
        return;
      }
      ++at_;
      value();
      apply(c == '*' ? Code::kMul : c == '/' ? Code::kDiv : Code::kMod);
    }
  }

  void value() {
    // Bounds the recursion too.
    if (++nested_ > Expression::kMaxDepth) {
      refuse(fmt::format("expression \"{}\": nested too deeply", text_));
    }
    const char c = peek();
    if (accept('-')) {
      value();
      steps_.push_back({Code::kNegate});
    } else if (accept('(')) {
      sum();
      expect(')', "\")\"");
    } else if (is_digit(c)) {
      number();
    } else if (is_letter(c)) {
      name();
    } else {
      wrong("a number, a symbol or \"(\"");
    }
    --nested_;
  }

  void number() {
    Step step;
    const char* const end = text_.data() + text_.size();
    const auto parsed = std::from_chars(text_.data() + at_, end, step.number);
    if (parsed.ec != std::errc()) {
      wrong("a number of 64 bits");
    }
    at_ = static_cast<std::size_t>(parsed.ptr - text_.data());
    push(std::move(step));
  }

  void name() {
    const std::size_t start = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) {
      ++at_;
    }
    const std::string_view word = text_.substr(start, at_ - start);
    const auto* const function =
        std::find_if(std::begin(kFunctions), std::end(kFunctions),
                     [&](const auto& candidate) { return candidate.first == word; });
    if (function == std::end(kFunctions)) {
      push({Code::kSymbol, 0, std::string(word)});
      return;
    }
    expect('(', "\"(\"");
    sum();
    expect(',', "\",\"");
    sum();
    expect(')', "\")\"");
    apply(function->second);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t waiting_ = 0;
  std::size_t nested_ = 0;
  std::vector<Step> steps_;
};

// Nothing on overflow. Division rounds as the processor does, ceil_div up.
std::optional<std::int64_t> apply(Code code, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (code) {
    case Code::kAdd:
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Code::kSub:
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Code::kMul:
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Code::kMin:
      return std::min(a, b);
    case Code::kMax:
      return std::max(a, b);
    case Code::kDiv:
    case Code::kMod:
    case Code::kCeilDiv:
      break;
    case Code::kNumber:
    case Code::kSymbol:
    case Code::kNegate:
      return std::nullopt;
  }
  if (b == 0 || (b == -1 && a == INT64_MIN)) {
    return std::nullopt;
  }
  if (code == Code::kMod) {
    return a % b;
  }
  const bool up = code == Code::kCeilDiv && a % b != 0 && (a < 0) == (b < 0);
  return a / b + (up ? 1 : 0);
}

}  // namespace

Expression Expression::parse(std::string_view text) {
  Expression expression;
  expression.text_ = text;
  expression.steps_ = Parser(expression.text_).run();
  return expression;
}

std::vector<std::string> Expression::symbols() const {
  std::vector<std::string> found;
  for (const Step& step : steps_) {
    if (step.code == Code::kSymbol &&
        std::find(found.begin(), found.end(), step.symbol) == found.end()) {
      found.push_back(step.symbol);
    }
  }
  return found;
}

std::optional<std::int64_t> Expression::evaluate(Lookup symbol_value, const void* context) const {
  std::array<std::int64_t, kMaxDepth> stack{};
  std::size_t size = 0;
  for (const Step& step : steps_) {
    if (step.code == Code::kNumber) {
      stack[size++] = step.number;
    } else if (step.code == Code::kSymbol) {
      stack[size++] = symbol_value(context, step.symbol);
    } else {
      const bool negate = step.code == Code::kNegate;
      const std::int64_t b = stack[--size];
      const std::int64_t a = negate ? 0 : stack[--size];
      const std::optional<std::int64_t> result =
          c_api::apply(negate ? Code::kSub : step.code, a, b);
      if (!result) {
        return std::nullopt;
      }
      stack[size++] = *result;
    }
  }
  return stack[0];
}

}  // namespace kiln::c_api
