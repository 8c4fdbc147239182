#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include <kiln/engine.hpp>

#include "runtime/engine_impl.hpp"
#include "runtime/manifest.hpp"
#include "runtime/prebuild.hpp"
#include "runtime/warmup.hpp"
#include "trait_registry/variant.hpp"

namespace kiln {
namespace {

cache::StoreOptions store_options(const EngineOptions& options,
                                  const runtime::Environment& environment, const Logger& logger) {
  cache::StoreOptions store;
  store.root = environment.root;
  store.read_only_layers = environment.layers;
  store.trusted_keys = environment.trusted_keys;
  store.layer_match = options.layer_toolchains == ToolchainMatch::kExact ? cache::Match::kExact
                                                                         : cache::Match::kAny;
  store.limits = environment.limits;
  store.publishes = environment.jit != JitPolicy::kForbid;
  store.logger = logger;
  // As good as for ever, and still no overflow in finer units.
  constexpr std::chrono::seconds kLongestWait = std::chrono::hours(24 * 365);
  store.lock_times.wait_limit = std::min(options.compile_wait, kLongestWait);
  return store;
}

runtime::ProviderOptions provider_options(const EngineOptions& options,
                                          const runtime::Environment& environment) {
  return {.compiler = {.forbidden = environment.jit == JitPolicy::kForbid,
                       .toolchain = environment.toolchain,
                       .in_process = environment.compile_in_process,
                       .worker = environment.compile_worker,
                       .workers = environment.compile_jobs,
                       .timeout = options.compile_timeout},
          .policy = environment.jit};
}

runtime::LauncherOptions launcher_options(const EngineOptions& options,
                                          const runtime::Environment& environment,
                                          runtime::Recorder& recorder) {
  runtime::LauncherOptions launcher{.driver_path = options.driver,
                                    .pdl = environment.pdl,
                                    .check = environment.check,
                                    .capture_misses = environment.capture_misses,
                                    .used = {}};
  if (recorder.on()) {
    launcher.used = [&recorder](std::span<const Variant> variants) { recorder.used(variants); };
  }
  return launcher;
}

// Of every op, so they are part of every key.
std::vector<std::string> op_options(const runtime::Environment& environment) {
  std::vector<std::string> options;
  if (environment.line_info) {
    options.emplace_back("--generate-line-info");
  }
  return options;
}

void throw_if_failed(Status&& status) {
  value_or_throw(std::move(status));
}

}  // namespace

Engine::Impl::Impl(const EngineOptions& options, const runtime::Environment& environment)
    : logger_(options.log),
      registry_(op_options(environment)),
      root_choice_(cache::choose_root(environment.root)),
      store_(store_options(options, environment, logger_)),
      trace_(environment.trace, logger_),
      recorder_(environment.record, logger_),
      provider_(store_, provider_options(options, environment), logger_, trace_),
      launcher_(launcher_options(options, environment, recorder_), provider_, logger_, trace_) {
  for (const std::string& warning : environment.warnings) {
    logger_.warn_once(warning, warning);
  }
}

// What is being compiled for nobody any more need not be finished.
Engine::Impl::~Impl() {
  provider_.source().cancel();
}

Prefetch Engine::Impl::start(runtime::Prefetcher::Task task) {
  const auto threads = static_cast<std::size_t>(provider_.source().jobs());
  return Prefetch(prefetcher_.add(std::move(task), threads));
}

bool Prefetch::ready() const noexcept {
  return done_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void Prefetch::wait() const {
  done_.wait();
}

bool Prefetch::wait_for(std::chrono::nanoseconds limit) const {
  return done_.wait_for(limit) == std::future_status::ready;
}

void Prefetch::get() const {
  done_.get();
}

const Op& OpHandle::op() const noexcept {
  return static_cast<const registry::BoundOp*>(bound_)->op;
}

Engine::Engine(const EngineOptions& options)
    : impl_(std::make_unique<Impl>(options, runtime::Environment::read(options))) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

void Engine::register_op(Op op) {
  value_or_throw(impl_->registry().add(std::move(op)));
}

std::vector<std::string> Engine::op_names() const {
  std::vector<std::string> names;
  for (const registry::BoundOp* bound : impl_->registry().all()) {
    names.push_back(bound->op.name);
  }
  return names;
}

[[gnu::hot]] OpHandle Engine::op(std::string_view name) const {
  if (const registry::BoundOp* const bound = impl_->registry().lookup(name)) [[likely]] {
    return OpHandle(bound);
  }
  return OpHandle(value_or_throw(impl_->registry().find(name)));
}

CanUse Engine::can_use(OpHandle op, std::span<const Arg> args) const {
  return impl_->launcher().can_use(Impl::bound(op), args);
}

CanUse Engine::can_use(std::string_view op, std::initializer_list<Arg> args) const {
  return can_use(this->op(op), {args.begin(), args.size()});
}

std::size_t Engine::workspace_bytes(OpHandle op, std::span<const Arg> args) {
  return value_or_throw(impl_->launcher().workspace_bytes(Impl::bound(op), args));
}

[[gnu::hot]] void Engine::launch(OpHandle op, std::span<const Arg> args, StreamHandle stream,
                                 const LaunchOptions& options) {
  throw_if_failed(
      impl_->launcher().launch(Impl::bound(op), args, static_cast<CUstream>(stream), options));
}

void Engine::launch(std::string_view op, std::initializer_list<Arg> args, StreamHandle stream,
                    const LaunchOptions& options) {
  launch(this->op(op), {args.begin(), args.size()}, stream, options);
}

Plan Engine::plan(OpHandle op, std::span<const Arg> args) {
  return {value_or_throw(impl_->launcher().plan(Impl::bound(op), args)), args.size()};
}

Plan Engine::plan(std::string_view op, std::initializer_list<Arg> args) {
  return plan(this->op(op), {args.begin(), args.size()});
}

[[gnu::hot]] void Plan::launch(std::span<const Arg> args, StreamHandle stream,
                               const LaunchOptions& options) const {
  const auto& call = *static_cast<const runtime::Launcher::Call*>(call_.get());
  if (args.size() != args_) [[unlikely]] {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: the plan takes {} arguments, and {} came", call.op, args_, args.size()));
  }
  throw_if_failed(call.launch(args, static_cast<CUstream>(stream), options));
}

void Plan::launch(std::initializer_list<Arg> args, StreamHandle stream,
                  const LaunchOptions& options) const {
  launch({args.begin(), args.size()}, stream, options);
}

std::size_t Plan::workspace_bytes() const noexcept {
  const runtime::Plan* plan = static_cast<const runtime::Launcher::Call*>(call_.get())->plan;
  return plan != nullptr ? plan->workspace_bytes() : 0;
}

Prefetch Engine::prefetch(OpHandle op, std::span<const Arg> args) {
  runtime::Launcher& launcher = impl_->launcher();
  return impl_->start([&launcher, call = value_or_throw(launcher.shapes(Impl::bound(op), args))] {
    return launcher.fetch(call);
  });
}

Prefetch Engine::prefetch(std::string_view op, std::initializer_list<Arg> args) {
  return prefetch(this->op(op), {args.begin(), args.size()});
}

Prefetch Engine::prefetch(const Variant& variant) {
  runtime::KernelProvider& provider = impl_->provider();
  auto candidate = value_or_throw(runtime::Candidate::of(variant));
  return impl_->start([&provider, candidate = std::move(candidate)]() -> Status {
    const auto obtained = provider.obtain({&candidate, 1});
    return obtained ? Status() : tl::unexpected(obtained.error());
  });
}

WarmupReport Engine::warmup(const WarmupRequest& request) {
  return runtime::warmup(*impl_, request);
}

std::size_t Engine::unload(std::span<const StreamHandle> streams) {
  return value_or_throw(impl_->launcher().unload(streams));
}

std::size_t Engine::unload(std::initializer_list<StreamHandle> streams) {
  return unload(std::span(streams.begin(), streams.size()));
}

std::vector<Variant> Engine::read_manifest(const std::string& path) const {
  cache::PosixFileSystem disk;
  const runtime::Manifest manifest = value_or_throw(runtime::Manifest::read(disk, path));
  runtime::Resolved resolved = runtime::resolve(manifest, impl_->registry());
  for (const runtime::Resolved::Missing& missing : resolved.missing) {
    const std::string name = runtime::to_string(missing.entry);
    impl_->logger().warn_once("manifest " + name,
                              fmt::format("{}: {} is left out: {}", path, name, missing.reason));
  }
  return std::move(resolved.variants);
}

std::vector<Target> Engine::device_targets() {
  return value_or_throw(impl_->launcher().current_targets());
}

void Engine::forget_compile_failures() {
  impl_->provider().forget_failures();
}

std::vector<Variant> Engine::variants(OpHandle op, const Target& target) const {
  throw_if_failed(registry::serves(op.op(), target));
  return registry::enumerate(Impl::bound(op), target);
}

KernelInfo Engine::compile(const Variant& variant) {
  const auto start = std::chrono::steady_clock::now();
  const auto candidate = value_or_throw(runtime::Candidate::of(variant));
  const auto obtained = value_or_throw(impl_->provider().obtain({&candidate, 1}));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return runtime::kernel_info(candidate, obtained, taken.count());
}

PrebuildReport Engine::prebuild(const PrebuildRequest& request) {
  return runtime::prebuild(impl_->registry(), impl_->provider(), request);
}

Counters Engine::counters() const {
  const cache::StoreCounters store = impl_->store().counters();
  Counters counters{.compiles = impl_->provider().compiles(),
                    .cache_hits = store.hits,
                    .cache_misses = store.misses,
                    .cache_bytes_read = store.bytes_read,
                    .cache_publishes = store.published,
                    .cache_bytes_written = store.bytes_written,
                    .cache_write_failures = store.write_failures,
                    .rejected_entries = store.rejected,
                    .removed_temporaries = store.removed_temporaries,
                    .trimmed_files = store.trimmed,
                    .libraries_loaded = impl_->launcher().libraries_loaded(),
                    .cache_layers = {}};
  for (const cache::LayerHits& layer : store.layers) {
    counters.cache_layers.push_back({layer.layer, layer.hits});
  }
  return counters;
}

}  // namespace kiln
