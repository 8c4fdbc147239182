#pragma once

#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "runtime/kernel_provider.hpp"
#include "runtime/nvrtc/toolchain.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// Whether one of the globs is for this op, or there are none.
bool is_named(const std::vector<std::string>& globs, const std::string& op);

/// What ops have for targets.
struct Selection {
  struct Pair {
    std::string op;
    Target target;
    std::vector<Variant> variants;  ///< At least one.
  };
  std::vector<Pair> pairs;
  std::vector<PrebuildReport::Skipped> skipped;  ///< Pairs of no variant, with the reason.
};
/// Of the ops that the globs name. Targets count once.
Selection select(const registry::Registry& registry, const std::vector<std::string>& globs,
                 const std::vector<Target>& targets);

/// Globs that name no op.
std::vector<PrebuildReport::Skipped> unmatched(const registry::Registry& registry,
                                               const std::vector<std::string>& globs);

/// Why this NVRTC does not compile for a target; empty if it does.
std::string why_not_compilable(const Toolchain& toolchain, const Target& target);

/// Engine::prebuild. Throws only Error(kInvalidArgument) for a malformed request, and what
/// request.progress throws.
PrebuildReport prebuild(const registry::Registry& registry, KernelProvider& provider,
                        const PrebuildRequest& request);

}  // namespace kiln::runtime
