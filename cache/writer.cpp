#include "cache/writer.hpp"

#include <array>
#include <chrono>

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

namespace kiln::cache {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::string_view kDecimal = "0123456789";
constexpr std::string_view kHexadecimal = "0123456789abcdef";
constexpr std::string_view kHostCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
constexpr std::size_t kRandomDigits = 16;
constexpr std::size_t kMaxHostBytes = 64;

std::string host_name() {
  std::array<char, kMaxHostBytes + 1> buffer = {};
  if (gethostname(buffer.data(), buffer.size() - 1) != 0 || buffer[0] == '\0') {
    return "host";
  }
  std::string name = buffer.data();
  for (char& c : name) {
    c = kHostCharacters.find(c) != std::string_view::npos ? c : '_';
  }
  return name;
}

std::uint64_t random_number() {
  std::uint64_t value = 0;
  if (getrandom(&value, sizeof value, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof value)) {
    // Too early in the boot, or a sandbox: host, pid and the time still tell writers apart.
    value = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return value;
}

bool is_made_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

}  // namespace

Writer this_writer() {
  return {host_name(), getpid(), random_number()};
}

std::string temporary_name(const Writer& writer) {
  return fmt::format("{}.{}.{:016x}{}", writer.host, writer.pid, writer.random, kTemporarySuffix);
}

bool is_temporary_name(std::string_view name) {
  if (!name.ends_with(kTemporarySuffix)) {
    return false;
  }
  name.remove_suffix(kTemporarySuffix.size());
  const auto host_end = name.find('.');
  const auto pid_end = name.rfind('.');
  if (host_end == pid_end) {
    return false;  // Fewer than two dots; of more, the pid's part holds one.
  }
  const std::string_view random = name.substr(pid_end + 1);
  return is_made_of(name.substr(0, host_end), kHostCharacters) &&
         is_made_of(name.substr(host_end + 1, pid_end - host_end - 1), kDecimal) &&
         random.size() == kRandomDigits && is_made_of(random, kHexadecimal);
}

}  // namespace kiln::cache
