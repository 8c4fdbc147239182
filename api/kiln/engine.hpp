#pragma once

/// \file
/// The engine: ops, compiler, cache and driver tied together. This is the door to embed.
///
///   kiln::Engine engine;
///   kiln::Tensor x(x_ptr, kiln::DType::kBF16, {m, 512}), w(w_ptr, kiln::DType::kBF16, {128, 512}),
///       out(out_ptr, kiln::DType::kBF16, {m, 128});
///   engine.launch("n128k512_gemm_bf16", {x, w, out}, stream);

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kiln/error.hpp>
#include <kiln/log.hpp>
#include <kiln/op.hpp>
#include <kiln/target.hpp>
#include <kiln/tensor.hpp>

namespace kiln {

/// A CUstream or cudaStream_t; null is the legacy default stream.
using StreamHandle = void*;

/// Which toolchain's cubins a read-only layer may serve.
enum class ToolchainMatch : std::uint8_t { kAny, kExact };

/// What happens when a kernel is needed that is in no cache.
enum class JitPolicy : std::uint8_t {
  kAllow,   ///< It is compiled.
  kWarn,    ///< It is compiled, and a warning names it: for staging.
  kForbid,  ///< kCompileForbidden. NVRTC is neither sought nor opened, and any toolchain's entry
            ///< will do, from every layer.
};

/// What happens when a stream is being captured into a graph and a call on it needs a kernel that
/// the engine has not loaded. Drivers before 12.3 cannot load then, so with them it is always
/// kError.
enum class CaptureMisses : std::uint8_t {
  kLoad,   ///< It is compiled, where JitPolicy allows that, and loaded; the capture goes on, and a
           ///< warning names it, to be warmed up.
  kError,  ///< kNotLoaded, before any driver call that would spoil the capture.
};

/// Settings of an engine, read once when it is made. What each does, and which environment variable
/// stands in for one that is left empty, kiln_engine_options of include/kiln/kiln.h says; here only
/// what is not the same there. An empty optional, string or list is "not said".
struct EngineOptions {
  std::string cache_root;
  std::optional<bool> cache_group_shared;
  std::optional<std::uint64_t> cache_max_bytes;       ///< 0: no limit.
  std::optional<std::chrono::seconds> cache_max_age;  ///< 0: no limit.
  std::optional<bool> cache_allow_world_writable;
  std::vector<std::string> read_only_layers;
  std::vector<std::string> trusted_keys;
  ToolchainMatch layer_toolchains = ToolchainMatch::kAny;
  std::chrono::seconds compile_wait{600};  ///< Zero: never waits.
  std::optional<JitPolicy> jit;
  std::optional<bool> compile_in_process;
  std::string compile_worker;
  int compile_jobs = 0;
  std::chrono::seconds compile_timeout{300};
  std::string record;
  std::string trace;
  std::string nvrtc;
  std::string driver;
  std::optional<bool> pdl;
  std::optional<CaptureMisses> capture_misses;
  std::optional<bool> check;
  LogSink log;
};

/// In which order the memory operations of kernels that run at the same time wait for each other;
/// see the CUDA guide. Without effect on devices before 9.0.
enum class MemorySyncDomain : std::uint8_t {
  kDefault,
  kRemote,  ///< For kernels that talk to other devices, so that others need not wait for that.
};

/// Per-call switches.
struct LaunchOptions {
  /// Off: no kernel of this launch starts before its predecessor has finished, as without PDL.
  bool pdl = true;
  /// The first kernel of this launch starts when its predecessor has finished. Those after it, of
  /// an op of several, still start early: for finding which two kernels disagree.
  bool serialize = false;
  /// False: a kernel of this stream may have just written a `constant` argument; its reads move
  /// behind the PDL wait.
  bool constants_ready = true;
  void* workspace = nullptr;  ///< Device memory, 256-byte aligned, at least workspace_bytes().
  std::size_t workspace_bytes = 0;
  /// As cuCtxGetStreamPriorityRange counts; less is more urgent. Left out: the stream's.
  std::optional<int> priority{};
  MemorySyncDomain memory_sync_domain = MemorySyncDomain::kDefault;
};

/// The answer of can_use.
struct CanUse {
  bool ok = false;
  std::string reason;  ///< Empty when ok.
  explicit operator bool() const noexcept { return ok; }
};

/// A fast reference to a registered op; valid as long as its engine, and for that engine only: an
/// engine does not check that a handle is its own.
class OpHandle {
 public:
  const Op& op() const noexcept;

 private:
  friend class Engine;
  explicit OpHandle(const void* bound) noexcept : bound_(bound) {}
  const void* bound_;
};

/// One compilable kernel: an op's kernel with a value for each trait, for one target. It refers to
/// the op, as its traits do, and is valid as long as that: an engine's op lives as long as the
/// engine.
struct Variant {
  const Op* op = nullptr;  ///< Not owned.
  std::size_t kernel = 0;  ///< Index into op->kernels.
  Traits traits;
  Target target;
};

/// "n128k512_gemm_bf16 M_SPLIT=4 PDL=true sm_90a".
std::string to_string(const Variant& variant);

/// What is known about a compiled kernel.
struct KernelInfo {
  std::string name;    ///< to_string(variant).
  std::string symbol;  ///< Lowered (mangled) symbol in the cubin.
  std::string key;     ///< Source part of the cache key, 32 hex digits.
  bool from_cache = false;
  bool stored = false;  ///< Found in or published to a cache directory.
  std::size_t cubin_bytes = 0;
  int registers = 0;
  int shared_bytes = 0;   ///< Static shared memory.
  int spill_bytes = 0;    ///< Spill stores plus spill loads.
  bool pdl_wait = false;  ///< The kernel's PTX holds the PDL dependency wait.
  double seconds = 0;     ///< Wall time of the lookup and, if any, the compile.
};

/// Counts since the engine was made. A snapshot; counters only grow.
struct Counters {
  /// What one directory or pack served.
  struct Layer {
    std::string path;
    std::uint64_t hits = 0;
  };
  std::uint64_t compiles = 0;              ///< Kernels given to the compiler.
  std::uint64_t cache_hits = 0;            ///< Lookups that found an entry, in any layer.
  std::uint64_t cache_misses = 0;          ///< Lookups that found none.
  std::uint64_t cache_bytes_read = 0;      ///< Of the files that hits came from.
  std::uint64_t cache_publishes = 0;       ///< Entries written.
  std::uint64_t cache_bytes_written = 0;   ///< Of those entries' files.
  std::uint64_t cache_write_failures = 0;  ///< Kernels that could not be stored.
  std::uint64_t rejected_entries = 0;  ///< Entries that failed a check or that the driver refused.
  std::uint64_t removed_temporaries = 0;  ///< Files that writers left when they died.
  std::uint64_t trimmed_files = 0;        ///< Removed to stay within the limits.
  std::uint64_t libraries_loaded = 0;     ///< Kernels loaded into the driver.
  std::vector<Layer> cache_layers;        ///< In the order in which they are asked.
};

/// One of several machines that share a prebuild; their outputs merge.
struct Shard {
  static constexpr int kMost = 100'000;
  int index = 0;  ///< From 0.
  int count = 1;  ///< At most kMost.
};

struct PrebuildRequest {
  std::vector<Target> targets;
  std::vector<std::string> ops;  ///< Globs over op names; empty means every op.
  /// Exactly these, of this engine's ops, instead of `targets` and `ops`.
  std::vector<Variant> variants;
  int jobs = 0;  ///< Compiles at the same time; 0: EngineOptions::compile_jobs.
  Shard shard;
  bool check = false;    ///< Compiles nothing: kernels that are in no cache are `missing`.
  std::stop_token stop;  ///< When asked to stop, ends compiles under way and keeps what is done.
  /// Called after each kernel, from one thread at a time: done, total, the kernel. What it throws
  /// ends the prebuild after the compiles under way, and comes out of Engine::prebuild as it is.
  std::function<void(std::size_t, std::size_t, const KernelInfo&)> progress;
};

struct PrebuildReport {
  struct Failed {
    std::string kernel;
    ErrorCode code = ErrorCode::kInternal;
    std::string message;
  };
  struct Skipped {
    std::string op;
    std::string target;
    std::string reason;
  };
  std::vector<KernelInfo> kernels;  ///< Every one that was made or found, stored or not.
  std::vector<Failed> failed;       ///< Not made, or made and not stored.
  std::vector<Skipped> skipped;
  std::vector<std::string> missing;  ///< Names; of a check only.
  std::size_t stopped = 0;           ///< Kernels that were left when it was asked to stop.
  std::size_t compiled = 0;  ///< And stored; those that were not stored are among the failed.
  std::size_t cached = 0;
  double seconds = 0;
  /// Nothing failed, is missing or was left, and something was served.
  bool ok() const noexcept {
    return failed.empty() && missing.empty() && stopped == 0 && !kernels.empty();
  }
};

/// A call resolved once, for launching it many times: the kernels are loaded, and traits and
/// geometry are those of the shapes that it was made for. Copies refer to the same. Any number of
/// threads may launch it at once, but not while its engine is being destroyed.
class Plan {
 public:
  /// Packs parameters and makes one driver call per kernel, nothing else. The arguments must have
  /// the dtypes, shapes and device that the plan was made for, and keep the op's contract; only
  /// their pointers, strides and scalars may differ. That is checked, like everything that a launch
  /// by op checks, in the checking mode (EngineOptions::check) only, and otherwise trusted.
  /// `stream` must belong to the plan's context; the driver refuses any other. Throws kNotLoaded
  /// after Engine::unload, and after its engine's end.
  void launch(std::span<const Arg> args, StreamHandle stream,
              const LaunchOptions& options = {}) const;
  void launch(std::initializer_list<Arg> args, StreamHandle stream,
              const LaunchOptions& options = {}) const;

  /// Of LaunchOptions; 0 once it can no longer be launched.
  std::size_t workspace_bytes() const noexcept;

 private:
  friend class Engine;
  Plan(std::shared_ptr<const void> call, std::size_t args) noexcept
      : call_(std::move(call)), args_(args) {}
  std::shared_ptr<const void> call_;
  std::size_t args_;
};

/// A call's op and arguments, of which only dtypes, shapes, strides and devices count. The tensors
/// must live as long as this.
struct CallShape {
  OpHandle op;
  std::vector<Arg> args;
};

struct WarmupRequest {
  std::vector<CallShape> calls;
  std::vector<Variant> variants;  ///< Of targets that the current context's device runs.
  int jobs = 0;                   ///< Compiles at the same time; 0: EngineOptions::compile_jobs.
  /// Called after each kernel or call, from one thread at a time: done, total, its name. What it
  /// throws ends the warm-up and comes out of Engine::warmup as it is.
  std::function<void(std::size_t, std::size_t, const std::string&)> progress;
};

struct WarmupReport {
  struct Failed {
    std::string name;
    ErrorCode code = ErrorCode::kInternal;
    std::string message;
  };
  std::size_t prepared = 0;    ///< Calls and variants of the request that are now ready.
  std::uint64_t compiled = 0;  ///< Kernels that this engine compiled meanwhile.
  std::uint64_t loaded = 0;    ///< Libraries that it loaded into the driver meanwhile.
  std::vector<Failed> failed;
  double seconds = 0;
  bool ok() const noexcept { return failed.empty(); }
};

/// Something that is being compiled in the background. Copies refer to the same. Outlives its
/// engine, whose end makes it fail if it has not begun.
class Prefetch {
 public:
  bool ready() const noexcept;  ///< Never waits.
  void wait() const;
  bool wait_for(std::chrono::nanoseconds limit) const;  ///< Whether it is ready.
  void get() const;  ///< Waits; throws the Error that kept it from being there.

 private:
  friend class Engine;
  explicit Prefetch(std::shared_future<void> done) : done_(std::move(done)) {}
  std::shared_future<void> done_;
};

/// Ties registry, compiler, cache and driver together. Making one reads the environment and looks
/// at the cache root; it needs neither NVRTC nor a driver until something must be compiled or
/// launched. All members may be called from any thread. Errors are thrown as kiln::Error.
///
/// Compiled kernels that were loaded into the driver stay loaded until the process ends, whatever
/// becomes of the engine, so a captured graph outlives it; engines of a process share them. Only
/// unload() says otherwise.
///
/// A process that is forked from one in which an engine has used the driver cannot use CUDA; there
/// everything that needs the driver is kDriverUnavailable. Fork before, or exec after.
///
/// Once a kernel has failed on the device, every CUDA call in the process fails, and each error
/// says so: the process must end.
class Engine {
 public:
  explicit Engine(const EngineOptions& options = {});
  ~Engine();
  /// Handles and variants stay valid and belong to the engine that was moved to. The one that was
  /// moved from may only be destroyed or assigned to. No other thread may be using either.
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  /// Adds an engine's own op. Throws kDuplicateOp when the name is taken, kInvalidArgument when the
  /// description contradicts itself.
  void register_op(Op op);
  std::vector<std::string> op_names() const;
  OpHandle op(std::string_view name) const;  ///< Throws kUnknownOp, naming near matches.

  /// Whether the op's contract and policy allow this call, and the device where there is a driver
  /// to ask. A bad call is an answer, not an exception; only a name that is no op throws.
  CanUse can_use(OpHandle op, std::span<const Arg> args) const;
  CanUse can_use(std::string_view op, std::initializer_list<Arg> args) const;

  /// Bytes of workspace that launch needs for these arguments. Asks the driver which device they
  /// are on when the op uses workspace at all.
  std::size_t workspace_bytes(OpHandle op, std::span<const Arg> args);

  /// Checks the call against the op's contract and launches its kernels on `stream`. The first call
  /// of a variant finds it in the cache or compiles it, and loads it; later ones only launch, with
  /// one driver call per kernel and no allocation. At the first call with given shapes a context of
  /// the tensors' device must be current, and always the same one: an engine serves one context per
  /// device. `stream` must belong to it; the driver refuses any other. A call that has nothing to
  /// do (m = 0) launches nothing, but is checked, and needs a driver, like any other.
  void launch(OpHandle op, std::span<const Arg> args, StreamHandle stream,
              const LaunchOptions& options = {});
  void launch(std::string_view op, std::initializer_list<Arg> args, StreamHandle stream,
              const LaunchOptions& options = {});

  /// Resolves a call for repeated launching in the current context. Finds or compiles its kernels
  /// and loads them. Checks all but the data pointers, which may be null.
  Plan plan(OpHandle op, std::span<const Arg> args);
  Plan plan(std::string_view op, std::initializer_list<Arg> args);

  /// Starts to find or compile what a call with these arguments needs, on a thread of its own, and
  /// loads nothing. Asks the driver which device they are on. Data pointers are not looked at and
  /// may be null. A call outside the contract throws at once; the rest, Prefetch::get gives.
  Prefetch prefetch(OpHandle op, std::span<const Arg> args);
  Prefetch prefetch(std::string_view op, std::initializer_list<Arg> args);
  Prefetch prefetch(const Variant& variant);

  /// Finds or compiles, several at a time, everything that is asked for, and loads it into the
  /// current context; a later call of any of it neither compiles nor loads. What cannot be had is
  /// in the report.
  WarmupReport warmup(const WarmupRequest& request);

  /// Unloads from the driver every kernel that this engine uses and no other living engine of the
  /// process does; says how many libraries that were. What was planned is forgotten: a later launch
  /// plans and loads again, and a Plan that was made before throws kNotLoaded.
  ///
  /// The caller sees to it that the kernels' work has finished, that no graph with them, whichever
  /// engine it was captured with, is launched again, and that no other thread is using this engine.
  /// Refused (kInvalidArgument) while a capture is under way on one of `streams`, or on a stream of
  /// the current context that synchronises with the legacy default stream; the driver does not tell
  /// of others, and a capture on one that is not named is spoiled.
  std::size_t unload(std::span<const StreamHandle> streams);
  std::size_t unload(std::initializer_list<StreamHandle> streams);

  /// The variants of a manifest (EngineOptions::record), for a warm-up or a prebuild. Those that
  /// are no longer among this engine's ops are left out with a warning. Throws kIo and
  /// kInvalidArgument for a file that is no manifest.
  std::vector<Variant> read_manifest(const std::string& path) const;

  /// The targets that the current context's device runs, best first: those to warm up for.
  std::vector<Target> device_targets();

  /// Has kernels that could not be compiled, each of which is tried once, tried again.
  void forget_compile_failures();

  /// All variants of an op for a target; throws kUnsupportedTarget when the op does not serve it.
  std::vector<Variant> variants(OpHandle op, const Target& target) const;
  /// Finds a variant in the cache or compiles it. Needs no GPU.
  KernelInfo compile(const Variant& variant);
  /// Compiles every variant asked for into the cache. Needs no GPU.
  PrebuildReport prebuild(const PrebuildRequest& request);

  Counters counters() const;

  class Impl;  ///< Opaque; named here only for the library's own tools.
  Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
