#pragma once

#include <string>
#include <vector>

#include "runtime/manifest.hpp"

namespace kiln::tools {

/// The manifests in these files, merged. Throws Error for one that cannot be read or is none.
runtime::Manifest read_manifests(const std::vector<std::string>& paths);

}  // namespace kiln::tools
