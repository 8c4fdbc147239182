#include "runtime/nvrtc/ptx.hpp"

#include <cctype>
#include <cstddef>

namespace kiln::runtime {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '.' ||
         c == '%';
}

// Splits PTX into words and single punctuation characters. Comments and strings are skipped, since
// neither can hold an instruction.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : rest_(text) {}

  // The next token; empty at the end.
  std::string_view next() {
    while (!rest_.empty()) {
      if (rest_.starts_with("//")) {
        skip_past("\n", 2);
      } else if (rest_.starts_with("/*")) {
        skip_past("*/", 2);
      } else if (rest_.front() == '"') {
        skip_past("\"", 1);
      } else if (is_word(rest_.front())) {
        std::size_t size = 1;
        while (size < rest_.size() && is_word(rest_[size])) {
          ++size;
        }
        return take(size);
      } else if (std::isspace(static_cast<unsigned char>(rest_.front())) != 0) {
        rest_.remove_prefix(1);
      } else {
        return take(1);
      }
    }
    return {};
  }

 private:
  std::string_view take(std::size_t size) {
    const std::string_view token = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return token;
  }
  void skip_past(std::string_view end, std::size_t from) {
    const std::size_t found = rest_.find(end, from);
    rest_ = found == std::string_view::npos ? std::string_view() : rest_.substr(found + end.size());
  }

  std::string_view rest_;
};

bool body_waits(Tokens& tokens) {
  int depth = 0;
  for (std::string_view token = tokens.next(); !token.empty(); token = tokens.next()) {
    if (token == "{") {
      ++depth;
    } else if (token == "}") {
      if (--depth == 0) {
        return false;
      }
    } else if (token == ";" && depth == 0) {
      return false;  // A declaration without a body.
    } else if (token == "griddepcontrol.wait" && depth > 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool entry_waits(std::string_view ptx, std::string_view symbol) {
  Tokens tokens(ptx);
  for (std::string_view token = tokens.next(); !token.empty(); token = tokens.next()) {
    if (token == ".entry" && tokens.next() == symbol && body_waits(tokens)) {
      return true;
    }
  }
  return false;
}

}  // namespace kiln::runtime
