#pragma once

#include <kiln/engine.hpp>

#include "base/logger.hpp"
#include "base/result.hpp"
#include "cache/store.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/environment.hpp"
#include "runtime/kernel_provider.hpp"
#include "runtime/launcher.hpp"
#include "runtime/prefetcher.hpp"
#include "runtime/recorder.hpp"
#include "runtime/trace.hpp"
#include "trait_registry/registry.hpp"

namespace kiln {

/// What an engine is made of. The library's own tools use the parts directly.
class Engine::Impl {
 public:
  Impl(const EngineOptions& options, const runtime::Environment& environment);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  const Logger& logger() const noexcept { return logger_; }
  registry::Registry& registry() noexcept { return registry_; }
  const registry::Registry& registry() const noexcept { return registry_; }
  const cache::RootChoice& root_choice() const noexcept { return root_choice_; }
  cache::Store& store() noexcept { return store_; }
  runtime::KernelProvider& provider() noexcept { return provider_; }
  runtime::Launcher& launcher() noexcept { return launcher_; }
  /// Runs the task in the background, beside as many others as there may be compiles.
  Prefetch start(runtime::Prefetcher::Task task);
  static const registry::BoundOp& bound(OpHandle op) noexcept {
    return *static_cast<const registry::BoundOp*>(op.bound_);
  }
  /// Loads libcuda at the first call; later calls give the same answer.
  Result<std::shared_ptr<const runtime::Driver>> driver() { return launcher_.driver(); }

 private:
  Logger logger_;
  registry::Registry registry_;
  cache::RootChoice root_choice_;
  cache::Store store_;
  runtime::Trace trace_;
  runtime::Recorder recorder_;
  runtime::KernelProvider provider_;
  runtime::Launcher launcher_;
  runtime::Prefetcher prefetcher_;  // Last: its tasks use the others.
};

}  // namespace kiln
