#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/logger.hpp"
#include "base/result.hpp"
#include "cache/key.hpp"
#include "runtime/nvrtc/compiler.hpp"
#include "runtime/nvrtc/toolchain.hpp"

namespace kiln::runtime {

struct CompilerOptions {
  bool forbidden = false;  ///< No toolchain is sought; asking for one gives an error that says so.
  ToolchainInputs toolchain;
  bool in_process = false;            ///< NVRTC in this process, rather than in worker processes.
  std::string worker;                 ///< EngineOptions::compile_worker, else KILN_COMPILE_WORKER.
  int workers = 0;                    ///< Most worker processes; 0: as many as fit this machine.
  std::chrono::seconds timeout{300};  ///< Of one compile by a worker.
};

/// The compiler of an engine: finds a toolchain at the first question about it, and starts the
/// compiler when something must be compiled. All members may be called from any thread.
class CompilerSource {
 public:
  CompilerSource(CompilerOptions options, const Logger& logger);
  ~CompilerSource();

  /// The toolchain found on this machine; the same answer at every call.
  const Result<Toolchain>& toolchain();
  const cache::ToolchainKey& toolchain_key();  ///< Of toolchain(), when there is one.

  /// Worker processes, else NVRTC in this process; the same answer at every call.
  const Result<std::unique_ptr<Compiler>>& compiler();

  /// Compiles at the same time that compiler() is good for.
  int jobs();
  /// At least so many, whatever fits: somebody who knows better asked for them.
  void set_jobs(int jobs);
  /// Ends compiles under way and refuses new ones, where they run in other processes.
  void cancel();

 private:
  Result<std::unique_ptr<Compiler>> start();

  const CompilerOptions options_;
  const Logger logger_;
  std::once_flag found_once_;
  std::once_flag started_once_;
  std::optional<Result<Toolchain>> toolchain_;
  cache::ToolchainKey toolchain_key_;
  std::optional<Result<std::unique_ptr<Compiler>>> compiler_;
};

}  // namespace kiln::runtime
