#pragma once

/// \file
/// Settings of an engine and of a launch.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <kiln/cpp/version.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

/// A CUstream or cudaStream_t; null is the legacy default stream.
using StreamHandle = void*;

enum class LogLevel : std::int32_t {
  kDebug = KILN_LOG_DEBUG,
  kInfo = KILN_LOG_INFO,
  kWarning = KILN_LOG_WARNING,
  kError = KILN_LOG_ERROR,
};

/// Where an engine's log lines go, and from which level on. Without a callback Kiln prints nothing.
struct LogSink {
  /// Receives one finished line without a newline, valid during the call only. Called from any
  /// thread, also by several at a time, until the engine is destroyed. What it throws is dropped.
  std::function<void(LogLevel, const char*)> callback;
  LogLevel level = LogLevel::kWarning;
};

/// Which toolchain's cubins a read-only layer may serve.
enum class ToolchainMatch : std::uint8_t { kAny, kExact };

/// What happens when a kernel is needed that is in no cache.
enum class JitPolicy : std::int32_t {
  kAllow = KILN_JIT_ALLOW,    ///< It is compiled.
  kWarn = KILN_JIT_WARN,      ///< It is compiled, and a warning names it: for staging.
  kForbid = KILN_JIT_FORBID,  ///< kCompileForbidden; NVRTC is neither sought nor opened.
};

/// What happens when a stream is being captured and a call on it needs a kernel that is not loaded.
enum class CaptureMisses : std::int32_t {
  kLoad = KILN_CAPTURE_MISSES_LOAD,    ///< It is compiled and loaded; a warning names it.
  kError = KILN_CAPTURE_MISSES_ERROR,  ///< kNotLoaded, and the capture is not spoiled.
};

/// Read once, when an engine is made. A field that is left empty, and a number that is left 0 where
/// no other meaning is said, falls back to the environment variable that kiln_engine_options names
/// beside it; kiln/kiln.h says there in full what each does.
struct EngineOptions {
  std::string cache_root;  ///< Writable, absolute. Else KILN_CACHE_DIR.
  /// Everything in a named root is writable by its group. Else KILN_CACHE_GROUP.
  std::optional<bool> cache_group_shared;
  /// Most bytes of disk; 0: no limit. Else KILN_CACHE_MAX_BYTES.
  std::optional<std::uint64_t> cache_max_bytes;
  /// Most time without use; 0: no limit. Else KILN_CACHE_MAX_AGE.
  std::optional<std::chrono::seconds> cache_max_age;
  /// Uses a named root that everybody can write. Else KILN_CACHE_ALLOW_WORLD_WRITABLE.
  std::optional<bool> cache_allow_world_writable;
  /// Directories and packs, asked in order after the root, absolute. Else KILN_CACHE_LAYERS.
  std::vector<std::string> read_only_layers;
  /// Public key files; with any, only packs signed by one of them are used. Else KILN_TRUSTED_KEYS.
  std::vector<std::string> trusted_keys;
  ToolchainMatch layer_toolchains = ToolchainMatch::kAny;
  /// How long a miss waits at most for another process that compiles it. 0: never.
  std::chrono::seconds compile_wait{600};
  std::optional<JitPolicy> jit;            ///< Else KILN_JIT. Default kAllow.
  std::optional<bool> compile_in_process;  ///< Without workers. Else KILN_COMPILE_IN_PROCESS.
  std::string compile_worker;  ///< Path of kiln-compile-worker. Else KILN_COMPILE_WORKER.
  int compile_jobs = 0;        ///< Most compiles at a time. Else KILN_COMPILE_JOBS.
  std::chrono::seconds compile_timeout{300};    ///< Of one compile in a worker; 0: 300.
  std::string record;                           ///< Manifest file to keep. Else KILN_RECORD.
  std::string trace;                            ///< Trace file to append to. Else KILN_TRACE.
  std::string nvrtc;                            ///< Path of libnvrtc.so. Else KILN_NVRTC.
  std::string driver;                           ///< Path of libcuda.so.1.
  std::optional<bool> pdl;                      ///< Else KILN_PDL. On by default.
  std::optional<CaptureMisses> capture_misses;  ///< Else KILN_CAPTURE_MISSES. Default kLoad.
  std::optional<bool> check;                    ///< The checking mode. Else KILN_CHECK.
  LogSink log;
};

/// In which order memory operations of kernels that run at the same time wait for each other; see
/// the CUDA guide. Without effect on devices before 9.0.
enum class MemorySyncDomain : std::int32_t {
  kDefault = KILN_SYNC_DOMAIN_DEFAULT,
  kRemote = KILN_SYNC_DOMAIN_REMOTE,  ///< For kernels that talk to other devices.
};

/// Switches of one launch.
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

namespace detail {

inline std::int32_t c_switch(bool on) noexcept {
  return on ? KILN_ON : KILN_OFF;
}
inline std::int32_t c_switch(const std::optional<bool>& on) noexcept {
  return on ? c_switch(*on) : static_cast<std::int32_t>(KILN_DEFAULT);
}
template <class E>
std::int32_t c_enum(const std::optional<E>& value) noexcept {
  return value ? static_cast<std::int32_t>(*value) : 0;
}
inline const char* c_text(const std::string& text) noexcept {
  return text.empty() ? nullptr : text.c_str();
}
/// C's 0 is the default, and the door's is no limit.
inline std::uint64_t c_limit(std::uint64_t value) noexcept {
  return value == 0 ? KILN_NO_LIMIT : value;
}

inline std::vector<const char*> c_texts(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  pointers.reserve(texts.size());
  for (const std::string& text : texts) {
    pointers.push_back(text.c_str());
  }
  return pointers;
}

inline kiln_launch_options c_options(const LaunchOptions& options) noexcept {
  kiln_launch_options c = sized<kiln_launch_options>();
  c.workspace = options.workspace;
  c.workspace_bytes = options.workspace_bytes;
  c.pdl = c_switch(options.pdl);
  c.constants_ready = c_switch(options.constants_ready);
  c.serialize = c_switch(options.serialize);
  c.has_priority = options.priority ? 1 : 0;
  c.priority = options.priority.value_or(0);
  c.memory_sync_domain = static_cast<std::int32_t>(options.memory_sync_domain);
  return c;
}

/// An engine's options as C takes them; refers to the ones that it was made from.
class EngineOptionsForC {
 public:
  explicit EngineOptionsForC(const EngineOptions& options)
      : layers_(c_texts(options.read_only_layers)), keys_(c_texts(options.trusted_keys)) {
    c_.layers = layers_.data();
    c_.layer_count = layers_.size();
    c_.trusted_keys = keys_.data();
    c_.trusted_key_count = keys_.size();
    set_cache(options);
    set_compiler(options);
    c_.record = c_text(options.record);
    c_.trace = c_text(options.trace);
    c_.driver = c_text(options.driver);
    c_.pdl = c_switch(options.pdl);
    c_.check = c_switch(options.check);
    c_.capture_misses = c_enum(options.capture_misses);
    c_.log_level = static_cast<std::int32_t>(options.log.level);
  }
  EngineOptionsForC(const EngineOptionsForC&) = delete;
  EngineOptionsForC& operator=(const EngineOptionsForC&) = delete;

  void set_log(kiln_log_callback log, void* user) noexcept {
    c_.log = log;
    c_.log_user = user;
  }
  const kiln_engine_options* c() const noexcept { return &c_; }

 private:
  void set_cache(const EngineOptions& options) noexcept {
    c_.cache_root = c_text(options.cache_root);
    c_.cache_max_bytes = options.cache_max_bytes ? c_limit(*options.cache_max_bytes) : 0;
    if (options.cache_max_age) {
      c_.cache_max_age_seconds =
          c_limit(static_cast<std::uint64_t>(options.cache_max_age->count()));
    }
    c_.cache_group_shared = c_switch(options.cache_group_shared);
    c_.cache_allow_world_writable = c_switch(options.cache_allow_world_writable);
    c_.exact_toolchain = c_switch(options.layer_toolchains == ToolchainMatch::kExact);
  }
  void set_compiler(const EngineOptions& options) noexcept {
    c_.jit = c_enum(options.jit);
    c_.nvrtc = c_text(options.nvrtc);
    c_.compile_worker = c_text(options.compile_worker);
    c_.compile_in_process = c_switch(options.compile_in_process);
    c_.compile_jobs = options.compile_jobs;
    c_.compile_timeout_seconds = options.compile_timeout.count();
    const std::int64_t wait = options.compile_wait.count();
    c_.compile_wait_seconds = wait > 0 ? wait : -1;
  }

  std::vector<const char*> layers_;
  std::vector<const char*> keys_;
  kiln_engine_options c_ = sized<kiln_engine_options>();
};

}  // namespace detail
}  // namespace abi0
}  // namespace kiln
