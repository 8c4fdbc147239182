#pragma once

/// \file
/// What a cache and packs would serve, asked without anything to compile with.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "base/result.hpp"
#include "cache/layer_stack.hpp"
#include "cache/modes.hpp"
#include "cache/pack_layer.hpp"
#include "cache/rejects.hpp"
#include "runtime/environment.hpp"

namespace kiln::tools {

/// The places an engine would ask for a kernel: of the cache directory, the environment's layers
/// and the packs; or of the packs alone.
class Lookup {
 public:
  /// `engine` has the cache and its layers; null for the packs alone. Throws Error for a pack that
  /// an engine would not use.
  Lookup(Engine* engine, const std::vector<std::string>& packs);

  /// A lookup like any other: what it finds bad it moves aside.
  std::optional<cache::Hit> find(const cache::SourceKey& source);
  /// The compiler whose entries the cache directory is asked for, or that any will do.
  std::string toolchain() const;
  /// "/cache (from --cache), writable", then the packs.
  std::vector<std::string> places() const;

 private:
  Engine* engine_;
  runtime::Environment environment_;
  Result<runtime::Toolchain> toolchain_;
  std::optional<cache::ToolchainKey> key_;
  cache::PosixFileSystem disk_;
  Logger logger_;
  cache::PackTrust trust_;
  cache::Rejects rejects_;
  cache::LayerStack packs_;
};

}  // namespace kiln::tools
