#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::test {

/// Which of a kernel's parameters, counted from 0, are pointers to global memory.
struct PointerParams {
  std::set<int> constant;  ///< To memory that the kernel may read before the PDL wait.
  std::set<int> other;
};

/// The instructions of `.entry symbol` that touch global memory and that some path reaches without
/// passing griddepcontrol.wait, but for loads whose address comes from constant parameters alone.
/// Paths are not told apart by their conditions, nor addresses by where in the kernel a register
/// has its value; both err towards naming too much. L2 prefetches touch nothing. One line each.
/// Names the entry itself when there is none of that symbol.
std::vector<std::string> early_accesses(std::string_view ptx, std::string_view symbol,
                                        const PointerParams& params);

}  // namespace kiln::test
