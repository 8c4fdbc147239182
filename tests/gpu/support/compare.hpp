#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "reference/bf16.hpp"

namespace kiln::gpu {

/// Empty when all bits agree (two NaNs are equal whatever their bits), else the first difference.
inline std::string first_difference(std::span<const std::uint16_t> got,
                                    std::span<const std::uint16_t> want, std::size_t columns) {
  if (got.size() != want.size()) {
    return "sizes differ";
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!reference::same(got[i], want[i])) {
      char text[128];
      std::snprintf(text, sizeof(text), "row %zu column %zu: got 0x%04x, want 0x%04x", i / columns,
                    i % columns, static_cast<unsigned>(got[i]), static_cast<unsigned>(want[i]));
      return text;
    }
  }
  return "";
}

}  // namespace kiln::gpu
