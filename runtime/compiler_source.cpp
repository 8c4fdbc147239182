#include "runtime/compiler_source.hpp"

#include <utility>

#include <fmt/format.h>

#include "runtime/worker/find_worker.hpp"
#include "runtime/worker/worker_count.hpp"

namespace kiln::runtime {

CompilerSource::CompilerSource(CompilerOptions options, const Logger& logger)
    : options_(std::move(options)), logger_(logger), jobs_(options_.workers) {}
CompilerSource::~CompilerSource() = default;

const Result<Toolchain>& CompilerSource::toolchain() {
  std::call_once(found_once_, [this] {
    if (options_.forbidden) {
      toolchain_.emplace(
          fail(ErrorCode::kCompilerUnavailable,
               "no NVRTC is sought, since compiling is forbidden (EngineOptions::jit, "
               "KILN_JIT)"));
      return;
    }
    toolchain_.emplace(find_toolchain(options_.toolchain));
    if (*toolchain_) {
      toolchain_key_ = runtime::toolchain_key(**toolchain_);
    }
  });
  return *toolchain_;
}

const cache::ToolchainKey& CompilerSource::toolchain_key() {
  toolchain();
  return toolchain_key_;
}

Result<Compiler*> CompilerSource::compiler() {
  const std::lock_guard lock(start_mutex_);
  if (!compiler_) {
    auto started = start();
    if (!started && started.error().code == ErrorCode::kCancelled) {
      return tl::unexpected(std::move(started.error()));
    }
    compiler_ = std::move(started);
  }
  return *compiler_ ? Result<Compiler*>(compiler_->value().get())
                    : tl::unexpected(compiler_->error());
}

Result<std::unique_ptr<Compiler>> CompilerSource::start() {
  const Result<Toolchain>& found = toolchain();
  if (!found) {
    return tl::unexpected(found.error());
  }
  if (!options_.in_process) {
    auto pool = start_workers(*found);
    if (pool) {
      return std::move(*pool);
    }
    if (pool.error().kind != StartFailure::Kind::kNoWorker) {
      return tl::unexpected(std::move(pool.error().failure));
    }
    no_worker_ = std::move(pool.error().failure);
    logger_.warn_once("no worker",
                      fmt::format("compile: compiles run in this process, since no compile worker "
                                  "can be started: {}",
                                  no_worker_->message));
  }
  Result<Nvrtc> nvrtc = Nvrtc::load(*found);
  if (!nvrtc) {
    return tl::unexpected(std::move(nvrtc.error()));
  }
  return std::make_unique<Nvrtc>(std::move(*nvrtc));
}

Result<std::string> CompilerSource::find_worker() const {
  return runtime::find_worker({.option = options_.worker, .code_file = file_of_this_code()});
}

Result<std::string> CompilerSource::worker() {
  static_cast<void>(compiler());
  const std::lock_guard lock(start_mutex_);
  if (no_worker_) {
    return tl::unexpected(*no_worker_);
  }
  return find_worker();
}

tl::expected<std::unique_ptr<WorkerPool>, StartFailure> CompilerSource::start_workers(
    const Toolchain& toolchain) {
  WorkerPoolOptions pool;
  const Result<std::string> executable = find_worker();
  if (!executable) {
    return tl::unexpected(StartFailure{StartFailure::Kind::kNoWorker, executable.error()});
  }
  pool.executable = *executable;
  pool.max_workers = static_cast<unsigned>(jobs());
  pool.compile_timeout = options_.timeout;
  pool.logger = logger_;
  auto made = WorkerPool::make(toolchain, pool);
  const auto publish = [this](WorkerPool* to) {
    const std::lock_guard lock(pool_mutex_);
    pool_ = to;
    if (to != nullptr && cancelled_) {
      to->cancel();
    }
  };
  publish(made.get());
  if (auto started = made->start_first(); !started) {
    publish(nullptr);
    return tl::unexpected(std::move(started.error()));
  }
  return made;
}

int CompilerSource::jobs() {
  const int asked = jobs_.load();
  if (asked > 0) {
    return asked;
  }
  std::call_once(counted_once_, [this] {
    fitting_jobs_ = static_cast<int>(default_worker_count(look_at_machine({})));
  });
  return fitting_jobs_;
}

void CompilerSource::set_jobs(int jobs) {
  jobs_ = jobs;
  with_pool([jobs](WorkerPool& pool) { pool.set_max_workers(static_cast<unsigned>(jobs)); });
}

void CompilerSource::cancel() {
  const std::lock_guard lock(pool_mutex_);
  cancelled_ = true;
  if (pool_ != nullptr) {
    pool_->cancel();
  }
}

void CompilerSource::resume() {
  const std::lock_guard lock(pool_mutex_);
  cancelled_ = false;
  if (pool_ != nullptr) {
    pool_->resume();
  }
}

template <class Use>
void CompilerSource::with_pool(Use&& use) {
  const std::lock_guard lock(pool_mutex_);
  if (pool_ != nullptr) {
    use(*pool_);
  }
}

std::vector<pid_t> CompilerSource::workers() {
  std::vector<pid_t> pids;
  with_pool([&](WorkerPool& pool) { pids = pool.pids(); });
  return pids;
}

}  // namespace kiln::runtime
