#include "tools/compare.hpp"

#include <cstring>

#include <fmt/format.h>

#include "tools/console.hpp"

namespace kiln::tools {
namespace {

bool is_nan(DType dtype, std::uint64_t bits) {
  switch (dtype) {
    case DType::kBF16:
      return (bits & 0x7FFF) > 0x7F80;
    case DType::kF32:
      return (bits & 0x7FFF'FFFF) > 0x7F80'0000;
    case DType::kE4M3:
      return (bits & 0x7F) == 0x7F;
    default:
      return false;
  }
}

// Little-endian, as all that CUDA runs on.
std::uint64_t element(std::span<const std::byte> bytes, std::size_t index, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * size, size);
  return bits;
}

}  // namespace

Comparison compare(const HostTensor& expected, std::span<const std::byte> got) {
  const auto size = static_cast<std::size_t>(dtype_size(expected.dtype));
  Comparison out;
  out.output = expected.arg->name;
  out.elements = expected.elements();
  out.hex_digits = static_cast<int>(2 * size);
  for (std::size_t i = out.elements; i-- > 0;) {
    const std::uint64_t mine = element(got, i, size);
    const std::uint64_t want = element(expected.data, i, size);
    const bool both_nan = is_nan(expected.dtype, mine) && is_nan(expected.dtype, want);
    if (mine != want && !both_nan) {
      ++out.different;
      out.first = i;
      out.got = mine;
      out.expected = want;
    }
  }
  return out;
}

std::string to_string(const Comparison& c) {
  const std::string elements = count(c.elements, "element", "elements");
  if (c.different == 0) {
    return fmt::format("{}: all {} equal the reference bit for bit", c.output, elements);
  }
  return fmt::format(
      "{}: {} of {} differ from the reference; element {} is 0x{:0{}x}, expected 0x{:0{}x}",
      c.output, c.different, elements, c.first, c.got, c.hex_digits, c.expected, c.hex_digits);
}

}  // namespace kiln::tools
