#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "cache/key.hpp"

namespace kiln::cache {

/// What an entry is about: bytes that never change. Copies share them and what is worked out from
/// them, so that entries of one image have it read and hashed once. Thread-safe.
class Image {
 public:
  Image() noexcept = default;
  Image(std::string bytes);
  /// Of bytes that were not set before they were written, which a string's are.
  Image(std::unique_ptr<char[]> bytes, std::size_t size);
  Image(const char* bytes) : Image(std::string(bytes)) {}

  std::string_view bytes() const noexcept;
  operator std::string_view() const noexcept { return bytes(); }
  const char* data() const noexcept { return bytes().data(); }
  std::size_t size() const noexcept { return bytes().size(); }
  bool empty() const noexcept { return bytes().empty(); }
  bool operator==(const Image& other) const noexcept {
    return held_ == other.held_ || bytes() == other.bytes();
  }

  /// Of the bytes. Goes through them at the first call of this and the next one.
  Digest digest() const;
  /// Of the bytes and `rest` after them.
  Digest digest_with(std::string_view rest) const;

 private:
  struct Held;

  std::shared_ptr<Held> held_;  // Null for an empty one.
};

}  // namespace kiln::cache
