#include <cctype>
#include <string>
#include <vector>

#include "trait_registry/sources.hpp"

namespace kiln::registry {
namespace {

bool is_word_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// Walks a source token by token, as far as finding directives needs.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<IncludeDirective> run() {
    bool at_line_start = true;
    while (!at_end()) {
      const char c = peek();
      if (c == '\n') {
        advance(1);
        at_line_start = true;
      } else if (skip_blank_or_comment()) {
        continue;  // Leaves at_line_start as it is: a directive may follow a comment.
      } else if (c == '#' && at_line_start) {
        advance(1);
        directive();
        at_line_start = false;
      } else {
        token();
        at_line_start = false;
      }
    }
    return std::move(includes_);
  }

 private:
  // Whether the lines here are compiled, and why not.
  enum class Group : unsigned char { kLive, kIfZero, kInsideDead };

  bool at_end() const { return pos_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0';
  }
  bool starts_with(std::string_view prefix) const {
    return text_.substr(pos_, prefix.size()) == prefix;
  }
  void advance(std::size_t count) {
    for (; count > 0 && !at_end(); --count, ++pos_) {
      line_ += text_[pos_] == '\n' ? 1 : 0;
    }
  }
  bool dead() const { return !groups_.empty() && groups_.back() != Group::kLive; }

  // Length of a backslash-newline here, or 0.
  std::size_t splice() const {
    if (peek() != '\\') {
      return 0;
    }
    if (starts_with("\\\n")) {
      return 2;
    }
    return starts_with("\\\r\n") ? 3 : 0;
  }

  bool skip_blank_or_comment() {
    if (const std::size_t length = splice(); length > 0) {
      advance(length);
      return true;
    }
    if (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\f' || peek() == '\v') {
      advance(1);
      return true;
    }
    if (peek() != '/') {
      return false;
    }
    if (starts_with("//")) {
      skip_line();
      return true;
    }
    if (starts_with("/*")) {
      advance(2);
      while (!at_end() && !starts_with("*/")) {
        advance(1);
      }
      advance(2);
      return true;
    }
    return false;
  }

  // Up to the newline, which stays.
  void skip_line() {
    while (!at_end() && peek() != '\n') {
      const std::size_t length = splice();
      advance(length > 0 ? length : 1);
    }
  }

  void token() {
    const char c = peek();
    if (is_word_start(c)) {
      const std::string_view name = word();
      if (peek() == '"' && !name.empty() && name.back() == 'R' && is_raw_prefix(name)) {
        raw_string();
      }
    } else if (is_digit(c)) {
      number();
    } else if (c == '"' || c == '\'') {
      literal(c);
    } else {
      advance(1);
    }
  }

  static bool is_raw_prefix(std::string_view name) {
    return name == "R" || name == "LR" || name == "uR" || name == "UR" || name == "u8R";
  }

  std::string_view word() {
    const std::size_t begin = pos_;
    while (is_word(peek())) {
      advance(1);
    }
    return text_.substr(begin, pos_ - begin);
  }

  // Knows digit separators, which would otherwise open a character literal.
  void number() {
    while (is_word(peek()) || peek() == '.' || (peek() == '\'' && is_word(peek(1)))) {
      advance(1);
    }
  }

  // Ends at the line's end if it is not closed: an apostrophe in the text of an #error, say.
  void literal(char quote) {
    advance(1);
    while (!at_end() && peek() != quote && peek() != '\n') {
      const std::size_t length = splice();
      advance(length > 0 ? length : (peek() == '\\' && peek(1) != '\n' ? 2 : 1));
    }
    if (peek() == quote) {
      advance(1);
    }
  }

  void raw_string() {
    advance(1);
    const std::size_t open = text_.find('(', pos_);
    if (open == std::string_view::npos) {
      return;
    }
    const std::string close = ")" + std::string(text_.substr(pos_, open - pos_)) + "\"";
    const std::size_t end = text_.find(close, open);
    advance(end == std::string_view::npos ? text_.size() : end + close.size() - pos_);
  }

  void skip_blanks_in_line() {
    while (!at_end() && peek() != '\n' && skip_blank_or_comment()) {
    }
  }

  void directive() {
    skip_blanks_in_line();
    const std::string_view name = word();
    if (name == "if" || name == "ifdef" || name == "ifndef") {
      open_group(name == "if");
    } else if (name == "else" || name == "elif" || name == "elifdef" || name == "elifndef") {
      if (!groups_.empty() && groups_.back() == Group::kIfZero) {
        groups_.back() = Group::kLive;
      }
      if (name == "elif" && !dead()) {
        probes();
      }
    } else if (name == "endif") {
      if (!groups_.empty()) {
        groups_.pop_back();
      }
    } else if (name == "include" && !dead()) {
      include();
    }
  }

  void open_group(bool has_value) {
    if (dead()) {
      groups_.push_back(Group::kInsideDead);
      return;
    }
    skip_blanks_in_line();
    const bool starts_with_zero = has_value && peek() == '0' && !is_word(peek(1));
    if (starts_with_zero) {
      advance(1);
      skip_blanks_in_line();
    }
    const bool is_zero = starts_with_zero && (at_end() || peek() == '\n');
    groups_.push_back(is_zero ? Group::kIfZero : Group::kLive);
    if (has_value) {
      probes();
    }
  }

  // The rest of a condition.
  void probes() {
    while (!at_end() && peek() != '\n') {
      if (skip_blank_or_comment()) {
        continue;
      }
      if (!is_word_start(peek())) {
        token();
        continue;
      }
      const std::string_view name = word();
      skip_blanks_in_line();
      if ((name == "__has_include" || name == "__has_include_next") && peek() == '(') {
        advance(1);
        file_name(true);
      }
    }
  }

  void include() {
    file_name(false);
    skip_line_outside_comments();
  }

  void file_name(bool probe) {
    skip_blanks_in_line();
    IncludeDirective found{IncludeDirective::Form::kComputed, probe, {}, pos_, line_};
    const char open = peek();
    if (open == '"' || open == '<') {
      const std::size_t begin = pos_ + 1;
      const std::size_t end = text_.find_first_of(open == '"' ? "\"\n" : ">\n", begin);
      if (end != std::string_view::npos && text_[end] != '\n') {
        found.form =
            open == '"' ? IncludeDirective::Form::kQuoted : IncludeDirective::Form::kAngled;
        found.name = text_.substr(begin, end - begin);
        found.offset = begin;
        advance(end + 1 - pos_);
      }
    }
    includes_.push_back(found);
  }

  // What follows on a directive's line may open a comment that goes on below.
  void skip_line_outside_comments() {
    while (!at_end() && peek() != '\n') {
      if (!skip_blank_or_comment()) {
        advance(1);
      }
    }
  }

  std::string_view text_;
  std::size_t pos_ = 0;
  int line_ = 1;
  std::vector<Group> groups_;
  std::vector<IncludeDirective> includes_;
};

}  // namespace

std::vector<IncludeDirective> scan_includes(std::string_view text) {
  return Scanner(text).run();
}

}  // namespace kiln::registry
