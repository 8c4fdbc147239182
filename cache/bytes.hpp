#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace kiln::cache {

static_assert(std::endian::native == std::endian::little, "the format is written as it lies");

template <class Integer>
void append_integer(std::string& out, Integer value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  out.append(raw, sizeof value);
}

/// Takes bytes off the front of a view, never past its end.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) noexcept : rest_(bytes) {}

  bool empty() const noexcept { return rest_.empty(); }
  std::size_t remaining() const noexcept { return rest_.size(); }

  template <class Integer>
  std::optional<Integer> integer() noexcept {
    const auto raw = bytes(sizeof(Integer));
    if (!raw) {
      return std::nullopt;
    }
    Integer value;
    std::memcpy(&value, raw->data(), sizeof value);
    return value;
  }

  std::optional<std::string_view> bytes(std::uint64_t count) noexcept {
    if (count > rest_.size()) {
      return std::nullopt;
    }
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(count));
    rest_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view rest_;
};

}  // namespace kiln::cache
