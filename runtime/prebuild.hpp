#pragma once

#include <kiln/engine.hpp>

#include "runtime/kernel_provider.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// Engine::prebuild. Throws only Error(kInvalidArgument) for a malformed request, and what
/// request.progress throws.
PrebuildReport prebuild(const registry::Registry& registry, KernelProvider& provider,
                        const PrebuildRequest& request);

}  // namespace kiln::runtime
