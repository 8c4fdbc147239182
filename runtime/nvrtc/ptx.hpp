#pragma once

#include <string_view>

namespace kiln::runtime {

/// Whether the body of `.entry symbol` in `ptx` holds griddepcontrol.wait, the PDL dependency wait.
/// Comments do not count. False when there is no such entry.
bool entry_waits(std::string_view ptx, std::string_view symbol);

}  // namespace kiln::runtime
