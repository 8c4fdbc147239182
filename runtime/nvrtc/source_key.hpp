#pragma once

#include <string>
#include <vector>

#include "cache/key.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {

/// Raised by one whenever the same unit would be compiled differently than before.
inline constexpr std::uint32_t kSourceKeyVersion = 1;

/// Every option of a compile, in the order that NVRTC gets them.
std::vector<std::string> compile_options(const registry::CompileUnit& unit);

/// The source part of a unit's cache key: target, options, name expression, and the name and
/// content of the template and of each header. Needs no compiler.
cache::SourceKey source_key(const registry::CompileUnit& unit);

}  // namespace kiln::runtime
