#pragma once

#include <optional>

#include <kiln/engine.hpp>

#include "cache/root.hpp"
#include "runtime/nvrtc/toolchain.hpp"

namespace kiln::runtime {

/// Everything an engine takes from its surroundings, read once when it is made, and merged with its
/// options, which win.
struct Environment {
  cache::RootInputs root;
  ToolchainInputs toolchain;
  bool check = false;  ///< EngineOptions::check, else KILN_CHECK.

  static Environment read(const EngineOptions& options);
};

}  // namespace kiln::runtime
