#include "cache/blob_shelf.hpp"

#include <algorithm>

namespace kiln::cache {

std::optional<Image> BlobShelf::find(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(blobs_.begin(), blobs_.end(),
                                  [&](const auto& blob) { return blob.first == number; });
  if (found == blobs_.end()) {
    return std::nullopt;
  }
  std::rotate(found, found + 1, blobs_.end());
  return blobs_.back().second;
}

void BlobShelf::put(std::uint32_t number, Image blob) {
  const std::lock_guard lock(mutex_);
  const bool known = std::any_of(blobs_.begin(), blobs_.end(),
                                 [&](const auto& other) { return other.first == number; });
  if (known || blob.size() > kMostBytes) {
    return;
  }
  const std::size_t bytes = blob.size();
  blobs_.emplace_back(number, std::move(blob));
  bytes_ += bytes;
  auto kept = blobs_.begin();
  for (; bytes_ > kMostBytes; ++kept) {
    bytes_ -= kept->second.size();
  }
  blobs_.erase(blobs_.begin(), kept);
}

}  // namespace kiln::cache
