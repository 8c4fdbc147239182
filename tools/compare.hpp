#pragma once

/// \file
/// How an op's output compares with its reference, bit for bit.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tools/host_call.hpp"

namespace kiln::tools {

struct Comparison {
  std::string output;
  std::size_t elements = 0;
  std::size_t different = 0;
  // Of the first element that differs.
  std::size_t first = 0;
  std::uint64_t got = 0;
  std::uint64_t expected = 0;
  int hex_digits = 0;  ///< That spell one element.
};

/// `expected` holds what the reference gave, `got` as many bytes. Two NaNs of a floating-point type
/// are equal whatever their bits.
Comparison compare(const HostTensor& expected, std::span<const std::byte> got);

/// "out: all 1024 elements equal the reference bit for bit".
std::string to_string(const Comparison& comparison);

}  // namespace kiln::tools
