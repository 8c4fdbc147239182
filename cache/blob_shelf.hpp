#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cache/image.hpp"

namespace kiln::cache {

/// The blobs of a pack that were used last, as they are when inflated: entries that share some are
/// mostly asked for one after the other. Thread-safe.
class BlobShelf {
 public:
  /// Together. What a program holds of its cache must stay small beside what the driver holds.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  /// Nothing when it is not there, or no longer.
  std::optional<Image> find(std::uint32_t number);
  /// Those used least recently go. One that is too large for the shelf is left out.
  void put(std::uint32_t number, Image blob);

 private:
  std::mutex mutex_;                                    // Guards what follows.
  std::vector<std::pair<std::uint32_t, Image>> blobs_;  // The one used last comes last.
  std::size_t bytes_ = 0;                               // Of blobs_.
};

}  // namespace kiln::cache
