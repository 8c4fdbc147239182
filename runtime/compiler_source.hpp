#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/logger.hpp"
#include "base/result.hpp"
#include "cache/key.hpp"
#include "runtime/nvrtc/compiler.hpp"
#include "runtime/nvrtc/toolchain.hpp"
#include "runtime/worker/pool.hpp"

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

  /// Worker processes, else NVRTC in this process; the same answer at every call, but for
  /// kCancelled, after which it is tried again.
  Result<Compiler*> compiler();
  bool in_process() const noexcept { return options_.in_process; }  ///< As asked for.
  /// The executable of compiler()'s workers; why there are none, where they were wanted. Starts the
  /// compiler, where there is one.
  Result<std::string> worker();

  /// Compiles at the same time that compiler() is good for.
  int jobs();
  /// So many from now on, whatever fits: somebody who knows better asked for them.
  void set_jobs(int jobs);
  /// Ends compiles under way, and the start of the first worker, and refuses new ones until
  /// resume(), where they run in other processes.
  void cancel();
  void resume();
  std::vector<pid_t> workers();  ///< The processes that compile for this one now.

 private:
  Result<std::unique_ptr<Compiler>> start();
  Result<std::string> find_worker() const;
  tl::expected<std::unique_ptr<WorkerPool>, StartFailure> start_workers(const Toolchain& toolchain);
  template <class Use>
  void with_pool(Use&& use);

  const CompilerOptions options_;
  const Logger logger_;
  std::once_flag found_once_;
  std::optional<Result<Toolchain>> toolchain_;
  cache::ToolchainKey toolchain_key_;
  std::mutex start_mutex_;  // Guards what follows; held while the compiler starts.
  std::optional<Result<std::unique_ptr<Compiler>>> compiler_;
  std::optional<Failure> no_worker_;  // Set with compiler_.
  std::mutex pool_mutex_;             // Guards what follows; never held while something starts.
  WorkerPool* pool_ = nullptr;        // compiler_, when that is one, and while it becomes one.
  bool cancelled_ = false;
  std::atomic<int> jobs_;  // As asked for; 0: as many as fit.
  std::once_flag counted_once_;
  int fitting_jobs_ = 1;
};

}  // namespace kiln::runtime
