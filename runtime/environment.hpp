#pragma once

#include <optional>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "cache/limits.hpp"
#include "cache/root.hpp"
#include "runtime/nvrtc/toolchain.hpp"

namespace kiln::runtime {

/// Everything an engine takes from its surroundings, read once when it is made, and merged with its
/// options, which win.
struct Environment {
  cache::RootInputs root;
  std::vector<std::string> layers;  ///< EngineOptions::read_only_layers, else KILN_CACHE_LAYERS.
  std::vector<std::string> trusted_keys;  ///< EngineOptions::trusted_keys, else KILN_TRUSTED_KEYS.
  ToolchainInputs toolchain;
  cache::Limits limits;               ///< Of the writable root.
  std::vector<std::string> warnings;  ///< What could not be understood, and was left out.
  bool check = false;                 ///< EngineOptions::check, else KILN_CHECK.

  static Environment read(const EngineOptions& options);
};

}  // namespace kiln::runtime
