#include "trait_registry/pattern.hpp"

#include <fmt/format.h>

namespace kiln::registry {

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
  return pattern.find(fmt::format("{{{}}}", trait)) != std::string_view::npos;
}

std::string expand_pattern(std::string_view pattern, const std::vector<TraitSpec>& specs,
                           const Traits& traits) {
  std::string text(pattern);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::string name = fmt::format("{{{}}}", specs[i].name);
    const std::string value = specs[i].spell(traits.at(i));
    for (std::size_t at = text.find(name); at != std::string::npos;
         at = text.find(name, at + value.size())) {
      text.replace(at, name.size(), value);
    }
  }
  return text;
}

}  // namespace kiln::registry
