#include "cache/limits.hpp"

#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace kiln::cache {
namespace {

// The number that all of `digits` spells, times `unit`; nothing when it is none or too large.
std::optional<std::uint64_t> number(std::string_view digits, std::uint64_t unit,
                                    std::uint64_t largest) {
  std::uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end || value > largest / unit) {
    return std::nullopt;
  }
  return value * unit;
}

std::uint64_t unit_of_bytes(char suffix) {
  switch (suffix) {
    case 'k':
    case 'K':
      return std::uint64_t{1} << 10;
    case 'm':
    case 'M':
      return std::uint64_t{1} << 20;
    case 'g':
    case 'G':
      return std::uint64_t{1} << 30;
    default:
      return 1;
  }
}

std::uint64_t unit_of_seconds(char suffix) {
  constexpr std::uint64_t kHour = 3600;
  switch (suffix) {
    case 'h':
      return kHour;
    case 'd':
      return 24 * kHour;
    default:
      return 1;
  }
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const std::uint64_t unit = text.empty() ? 1 : unit_of_bytes(text.back());
  const auto bytes = number(text.substr(0, text.size() - (unit > 1 ? 1 : 0)), unit,
                            std::numeric_limits<std::uint64_t>::max());
  if (!bytes) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is no size: a number of bytes, or one with K, M or G", text));
  }
  return *bytes;
}

Result<std::chrono::seconds> parse_age(std::string_view text) {
  // So that it can be subtracted from a time in nanoseconds.
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max() / 4'000'000'000;
  const std::uint64_t unit = text.empty() ? 1 : unit_of_seconds(text.back());
  const auto seconds = number(text.substr(0, text.size() - (unit > 1 ? 1 : 0)), unit, kLargest);
  if (!seconds) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is no age: a number of seconds, or one with h or d", text));
  }
  return std::chrono::seconds(*seconds);
}

}  // namespace kiln::cache
