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
  bool line_info = false;             ///< KILN_LINEINFO.
  bool check = false;                 ///< EngineOptions::check, else KILN_CHECK.
  bool pdl = true;                    ///< EngineOptions::pdl, else KILN_PDL.
  CaptureMisses capture_misses = CaptureMisses::kLoad;  ///< Else KILN_CAPTURE_MISSES.
  JitPolicy jit = JitPolicy::kAllow;                    ///< EngineOptions::jit, else KILN_JIT.
  bool compile_in_process = false;  ///< EngineOptions::compile_in_process, else KILN_....
  std::string compile_worker;       ///< EngineOptions::compile_worker, else KILN_COMPILE_WORKER.
  int compile_jobs = 0;             ///< EngineOptions::compile_jobs, else KILN_COMPILE_JOBS.
  std::string record;               ///< EngineOptions::record, else KILN_RECORD.
  std::string trace;                ///< EngineOptions::trace, else KILN_TRACE.

  /// Throws Error(kInvalidArgument) for a KILN_JIT or KILN_CAPTURE_MISSES that is none of the words
  /// it takes: guessing one could compile, or load, where that is forbidden.
  static Environment read(const EngineOptions& options);
};

}  // namespace kiln::runtime
