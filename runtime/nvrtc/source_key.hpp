#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/key.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {

/// Raised by one whenever the meaning of a source key's fields changes.
inline constexpr std::uint32_t kSourceKeyVersion = 1;

/// Every option of a compile, in the order that NVRTC gets them: the target, what every compile
/// has, then the unit's own. NVRTC looks for no file on disk, and ptxas reports what the kernel
/// uses.
std::vector<std::string> compile_options(const registry::CompileUnit& unit);

/// The source part of a unit's cache key: target, options, name expression, and the name and
/// content of the template and of each header it includes. The unit's label is no part of it. Needs
/// no compiler.
cache::SourceKey source_key(const registry::CompileUnit& unit);

}  // namespace kiln::runtime
