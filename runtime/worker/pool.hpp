#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>
#include <tl/expected.hpp>

#include "base/logger.hpp"
#include "base/result.hpp"
#include "runtime/nvrtc/compiler.hpp"

namespace kiln::runtime {

struct WorkerPoolOptions {
  std::string executable;  ///< See find_worker.
  unsigned max_workers = 1;
  std::chrono::milliseconds compile_timeout{300'000};
  /// For a new worker to load NVRTC, which may have to be read from a slow disk.
  std::chrono::milliseconds start_timeout{60'000};
  unsigned recycle_after = 64;  ///< Compiles of one worker, since NVRTC's memory only grows.
  std::chrono::milliseconds linger{10'000};  ///< How long an idle worker is kept.
  Logger logger{LogSink{}};
};

/// Why there is no pool.
struct StartFailure {
  enum class Kind {
    kNoWorker,    ///< No worker can be started here. Compiling in this process may work.
    kNoCompiler,  ///< A worker runs, but NVRTC does not load. It would not in this process either.
    kCancelled,
  };
  Kind kind = Kind::kNoWorker;
  Failure failure;
};

struct WorkerCounters {
  unsigned started = 0;  ///< Workers that answered the hello.
  unsigned lost = 0;     ///< Workers that crashed, hung or answered garbage in a compile.
};

class Crew;

/// NVRTC in processes of their own, several at once. A crash or a hang costs a worker and is tried
/// once more; it never reaches this process. Thread-safe. In a process forked off from this one it
/// starts workers of its own.
class WorkerPool final : public Compiler {
 public:
  /// Of no worker yet. Until start_first() was successful, only cancel() and resume() may be
  /// called.
  static std::unique_ptr<WorkerPool> make(const Toolchain& toolchain,
                                          const WorkerPoolOptions& options);
  /// Starts the first worker and shakes hands with it.
  tl::expected<void, StartFailure> start_first();

  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  /// Kills and reaps every worker, also one in the middle of a compile, which then fails.
  ~WorkerPool() override;

  const Toolchain& toolchain() const noexcept override { return toolchain_; }
  std::vector<Target> targets() const override { return targets_; }

  /// Waits for a worker when all are busy. What NVRTC answers, also kCompileFailed, is passed on.
  /// kCompilerLost when two workers in a row were lost over it, kCompilerUnavailable when two could
  /// not be started; kCancelled after cancel().
  Result<CompiledProgram> compile(std::span<const registry::CompileUnit> units) const override;

  /// Ends the compiles in flight and refuses all later ones, until resume().
  void cancel();
  void resume();
  /// At least one. Idle workers beyond it stop now, busy ones when they are done.
  void set_max_workers(unsigned max_workers);
  std::vector<pid_t> pids() const;  ///< Of this process's workers.
  WorkerCounters counters() const;  ///< Likewise.

 private:
  WorkerPool(Toolchain toolchain, WorkerPoolOptions options);
  Crew& crew() const;
  Failure lost(const std::string& label, const std::vector<std::string>& ends,
               bool any_started) const;

  const Toolchain toolchain_;
  const WorkerPoolOptions options_;
  const std::vector<std::string> environment_;  ///< Read once: a later setenv is no data race.
  std::vector<Target> targets_;
  std::atomic<unsigned> max_workers_;
  std::atomic<bool> cancelled_ = false;
  mutable std::atomic<Crew*> crew_;  ///< This process's own; see crew().
};

}  // namespace kiln::runtime
