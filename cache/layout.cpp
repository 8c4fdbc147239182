#include "cache/layout.hpp"

namespace kiln::cache {

std::optional<Digest> Layout::parse_entry_name(std::string_view name) {
  if (!name.ends_with(kEntrySuffix)) {
    return std::nullopt;
  }
  const auto digest = Digest::parse(name.substr(0, name.size() - kEntrySuffix.size()));
  return digest ? std::optional(*digest) : std::nullopt;
}

bool Layout::is_target_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !name.empty() && name.find_first_not_of(kAllowed) == std::string_view::npos &&
         name != kTemporary && name != kQuarantine && name != kLocks;
}

}  // namespace kiln::cache
