#pragma once

/// \file
/// What a prebuild is refused for before its first compile, rather than after thousands. Kernels
/// that are there already are no reason: they need neither a compiler nor a place.

#include <vector>

#include <kiln/engine.hpp>

#include "tools/wanted.hpp"

namespace kiln::tools {

/// Architectures named by --arch that this NVRTC cannot compile for. Throws Error.
void refuse_archs(Engine& engine, const std::vector<Target>& named, const Wanted& asked);

/// A cache that takes no new kernel, where this shard has one. Throws Error.
void refuse_without_place(Engine& engine, const Wanted& asked, const Shard& shard);

/// No NVRTC that can be used, where this shard has a kernel to compile. Throws Error.
void refuse_without_compiler(Engine& engine, const Wanted& asked, const Shard& shard);

}  // namespace kiln::tools
