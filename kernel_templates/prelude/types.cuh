// Integer names and storage types.
// May live here: names for fixed-size types, with no operation on them. Nothing that needs an
// instruction.
#pragma once

namespace kiln {

using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using int64 = long long;

// The storage of one bfloat16; arithmetic happens in fp32 (see bf16.cuh).
struct bf16 {
  uint16 bits;
};
static_assert(sizeof(bf16) == 2 && sizeof(uint32) == 4 && sizeof(int64) == 8);

}  // namespace kiln
