#pragma once

/// \file
/// Whole-number expressions over an op's symbols, as text: what a C caller has in place of a
/// function of the problem.
///
///   sum     := product (("+" | "-") product)*
///   product := value (("*" | "/" | "%") value)*
///   value   := number | symbol | "-" value | "(" sum ")"
///            | ("min" | "max" | "ceil_div") "(" sum "," sum ")"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::c_api {

/// A parsed expression. Immutable; evaluating it allocates nothing.
class Expression {
 public:
  using Lookup = std::int64_t (*)(const void* context, const std::string& symbol);

  /// Throws Error(kInvalidArgument) that shows the text and where it is wrong.
  static Expression parse(std::string_view text);

  const std::string& text() const noexcept { return text_; }
  /// Each symbol once, in order of first use.
  std::vector<std::string> symbols() const;
  /// Nothing when it divides by zero or leaves 64 bits.
  std::optional<std::int64_t> evaluate(Lookup symbol_value, const void* context) const;

  enum class Code : std::uint8_t {
    kNumber,
    kSymbol,
    kAdd,
    kSub,
    kMul,
    kDiv,
    kMod,
    kMin,
    kMax,
    kCeilDiv,
    kNegate
  };
  /// One step of the postfix form.
  struct Step {
    Code code = Code::kNumber;
    std::int64_t number = 0;
    std::string symbol{};
  };
  /// Most values that wait at a time, so that evaluating needs no more than the stack.
  static constexpr std::size_t kMaxDepth = 32;

 private:
  std::string text_;
  std::vector<Step> steps_;
};

}  // namespace kiln::c_api
