#pragma once

#include <optional>
#include <string_view>

#include "cache/entry.hpp"

namespace kiln::runtime {

/// What ptxas -v says about the kernel `symbol` in an NVRTC log; nothing when it is not mentioned.
std::optional<cache::Resources> resources_from_log(std::string_view log, std::string_view symbol);

}  // namespace kiln::runtime
