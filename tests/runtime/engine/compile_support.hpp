#pragma once

#include "runtime/nvrtc/toolchain.hpp"
#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {

/// A fake driver and this machine's real NVRTC.
class CompilingMachine : public Machine {
 public:
  /// False, with the reason as a warning, where this machine has no NVRTC: the test is skipped.
  bool has_nvrtc() const {
    const auto found = runtime::find_toolchain(runtime::ToolchainInputs::from_environment(""));
    if (!found) {
      WARN("skipped: " + found.error().message);
    }
    return found.has_value();
  }
  EngineOptions options() {
    EngineOptions options = Machine::options();
    options.nvrtc.clear();
    return options;
  }
};

}  // namespace kiln::test
