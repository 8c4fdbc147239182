#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cache/key.hpp"

namespace kiln::cache::fuzz {

/// Puts the checksum of bytes [begin, end) at offset `at`. Mutations then reach what lies behind
/// the checks that would stop nearly all of them.
inline void mend_digest(std::string& bytes, std::size_t begin, std::size_t end, std::size_t at) {
  const Digest sum = digest(std::string_view(bytes).substr(begin, end - begin));
  std::memcpy(bytes.data() + at, &sum.low, sizeof sum.low);
  std::memcpy(bytes.data() + at + sizeof sum.low, &sum.high, sizeof sum.high);
}

/// A property that holds for every input.
inline void expect(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
  }
}

}  // namespace kiln::cache::fuzz
