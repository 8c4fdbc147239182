#include "trait_registry/pattern.hpp"

#include <fmt/format.h>

namespace kiln::registry {
namespace {

// The first trait that a well-formed pattern names; the pattern goes on after it. False when it
// names none.
bool next_trait(std::string_view& pattern, std::string_view& name) {
  const std::size_t open = pattern.find('{');
  if (open == std::string_view::npos) {
    return false;
  }
  const std::size_t close = pattern.find('}', open);
  name = pattern.substr(open + 1, close - open - 1);
  pattern.remove_prefix(close + 1);
  return true;
}

}  // namespace

Result<std::vector<std::string>> traits_in_pattern(std::string_view pattern) {
  std::vector<std::string> names;
  std::size_t at = 0;
  while ((at = pattern.find_first_of("{}", at)) != std::string_view::npos) {
    const std::size_t end = pattern.find_first_of("{}", at + 1);
    if (pattern[at] == '}' || end == std::string_view::npos || pattern[end] == '{') {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("unmatched '{}' at position {}", pattern[at], at));
    }
    names.emplace_back(pattern.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

bool pattern_uses(std::string_view pattern, std::string_view trait) {
  for (std::string_view name; next_trait(pattern, name);) {
    if (name == trait) {
      return true;
    }
  }
  return false;
}

std::string expand_pattern(std::string_view pattern, const std::vector<TraitSpec>& specs,
                           const Traits& traits) {
  std::string text;
  std::string_view rest = pattern;
  for (std::string_view name; !rest.empty();) {
    const std::size_t brace = rest.find('{');
    text.append(rest.substr(0, brace));
    if (!next_trait(rest, name)) {
      break;
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].name == name) {
        text.append(specs[i].spell(traits.at(i)));
      }
    }
  }
  return text;
}

}  // namespace kiln::registry
