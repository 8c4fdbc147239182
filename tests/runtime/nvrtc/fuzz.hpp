#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>

namespace kiln::test {

/// Calls `check` with every truncation of `image` and with `rounds` copies that have one to eight
/// random bytes changed, most of them in the headers, where structure is. The seed is fixed.
template <class Check>
void damage(const std::string& image, int rounds, Check&& check) {
  for (std::size_t size = 0; size < image.size(); ++size) {
    check(image.substr(0, size));
  }
  std::mt19937 random(20240229);
  const auto below = [&random](std::size_t bound) { return random() % bound; };
  for (int round = 0; round < rounds; ++round) {
    std::string damaged = image;
    for (std::size_t left = 1 + below(8); left > 0; --left) {
      const std::size_t from_end = below(64 * 16);
      const std::size_t at = below(2) == 0 ? below(std::min<std::size_t>(64, image.size()))
                             : from_end < image.size() ? image.size() - 1 - from_end
                                                       : below(image.size());
      damaged[at] = static_cast<char>(random());
    }
    check(damaged);
  }
}

}  // namespace kiln::test
