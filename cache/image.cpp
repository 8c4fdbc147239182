#include "cache/image.hpp"

#include <mutex>
#include <utility>

// The size of a hash's state; the archive that is linked is of this header.
#define XXH_STATIC_LINKING_ONLY  // NOLINT(readability-identifier-naming): xxhash's name.
#include <xxhash.h>

namespace kiln::cache {
namespace {

Digest digest_of(const XXH3_state_t& state) {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.high64, hash.low64};
}

}  // namespace

struct Image::Held {
  explicit Held(std::string image) : text(std::move(image)), bytes(text) {}
  Held(std::unique_ptr<char[]> image, std::size_t size)
      : array(std::move(image)), bytes(array.get(), size) {}

  /// A hash that has gone through the bytes, and can be asked or go on from there.
  const XXH3_state_t& hashed() {
    std::call_once(once_, [this] {
      XXH3_128bits_reset(&state_);
      XXH3_128bits_update(&state_, bytes.data(), bytes.size());
    });
    return state_;
  }

  const std::string text;  // Either this or the array is what `bytes` shows.
  const std::unique_ptr<char[]> array;
  const std::string_view bytes;

 private:
  std::once_flag once_;
  XXH3_state_t state_;  // Not set before hashed().
};

Image::Image(std::string bytes)
    : held_(bytes.empty() ? nullptr : std::make_shared<Held>(std::move(bytes))) {}

Image::Image(std::unique_ptr<char[]> bytes, std::size_t size)
    : held_(size == 0 ? nullptr : std::make_shared<Held>(std::move(bytes), size)) {}

std::string_view Image::bytes() const noexcept {
  return held_ ? held_->bytes : std::string_view();
}

Digest Image::digest() const {
  return held_ ? digest_of(held_->hashed()) : cache::digest({});
}

Digest Image::digest_with(std::string_view rest) const {
  if (!held_) {
    return cache::digest(rest);
  }
  XXH3_state_t state;
  XXH3_copyState(&state, &held_->hashed());
  XXH3_128bits_update(&state, rest.data(), rest.size());
  return digest_of(state);
}

}  // namespace kiln::cache
