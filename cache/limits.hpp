#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.hpp"

namespace kiln::cache {

/// How large the writable root may become, and how long an unused entry may stay. Unset or 0: no
/// limit.
struct Limits {
  std::optional<std::uint64_t> max_bytes;  ///< Of disk, taken by entries and the quarantine.
  std::optional<std::chrono::seconds> max_age;

  bool any() const noexcept {
    return max_bytes.value_or(0) != 0 || max_age.value_or(std::chrono::seconds(0)).count() != 0;
  }
};

/// A file's time further ahead of now than this is from a clock that was wrong, and says nothing.
inline constexpr std::chrono::hours kWrongClock{24};

/// "1000", or with a suffix K, M or G (of either case): 1024 bytes, 1024 K, 1024 M.
Result<std::uint64_t> parse_bytes(std::string_view text);

/// "3600" seconds, "12h" hours or "30d" days.
Result<std::chrono::seconds> parse_age(std::string_view text);

}  // namespace kiln::cache
