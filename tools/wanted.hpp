#pragma once

/// \file
/// Which variants `kiln prebuild` was asked for.

#include <cstdint>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "runtime/manifest.hpp"
#include "tools/prebuild_report.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::tools {

/// "2/8". Throws CLI::ValidationError for anything else, or when the first is not the smaller.
Shard parse_shard(const std::string& text);

struct WantedRequest {
  std::vector<Target> targets;         ///< With a manifest, may be empty: its own.
  std::vector<std::string> ops;        ///< Globs; empty means every op.
  std::vector<std::string> manifests;  ///< Files; empty means every variant.
};

struct Wanted {
  std::vector<Variant> variants;
  std::vector<PrebuildReport::Skipped> skipped;
  MissingEntries missing;  ///< Manifest entries that no longer exist.
};

Wanted wanted(const registry::Registry& registry, const WantedRequest& request);

}  // namespace kiln::tools
