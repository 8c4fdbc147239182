// Making an engine.

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "c_api/guard.hpp"
#include "c_api/handles.hpp"
#include "c_api/sized.hpp"

namespace kiln::c_api {
namespace {

std::string text(const char* given) {
  return given != nullptr ? given : "";
}

std::vector<std::string> texts(const char* const* given, std::size_t count, const char* what) {
  require_array(given, count, what);
  std::vector<std::string> copies;
  for (std::size_t i = 0; i < count; ++i) {
    copies.emplace_back(&required(given[i], what));
  }
  return copies;
}

std::optional<bool> optional_switch(int value, const char* what) {
  const bool on = switched_on(value, false, what);
  return value == KILN_DEFAULT ? std::nullopt : std::optional<bool>(on);
}

// 0 is the default, which is nothing; no limit is the library's 0.
std::optional<std::uint64_t> limit(std::uint64_t value) {
  if (value == 0) {
    return std::nullopt;
  }
  return value == KILN_NO_LIMIT ? 0 : value;
}

std::optional<std::chrono::seconds> age_limit(std::uint64_t value) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::chrono::seconds::rep>::max();
  const std::optional<std::uint64_t> seconds = limit(value);
  return seconds ? std::optional(std::chrono::seconds(std::min(*seconds, kMost))) : std::nullopt;
}

std::optional<JitPolicy> jit_policy(int value) {
  switch (value) {
    case KILN_JIT_DEFAULT:
      return std::nullopt;
    case KILN_JIT_ALLOW:
      return JitPolicy::kAllow;
    case KILN_JIT_WARN:
      return JitPolicy::kWarn;
    case KILN_JIT_FORBID:
      return JitPolicy::kForbid;
    default:
      refuse("options->jit is " + std::to_string(value) + ", which is no KILN_JIT_ constant");
  }
}

std::optional<CaptureMisses> capture_misses(int value) {
  switch (value) {
    case KILN_CAPTURE_MISSES_DEFAULT:
      return std::nullopt;
    case KILN_CAPTURE_MISSES_LOAD:
      return CaptureMisses::kLoad;
    case KILN_CAPTURE_MISSES_ERROR:
      return CaptureMisses::kError;
    default:
      refuse("options->capture_misses is " + std::to_string(value) +
             ", which is no KILN_CAPTURE_MISSES_ constant");
  }
}

LogLevel log_level(int value) {
  if (value < 0 || value > KILN_LOG_ERROR) {
    refuse("options->log_level is " + std::to_string(value) + ", which is no KILN_LOG_ constant");
  }
  return static_cast<LogLevel>((value == 0 ? KILN_LOG_WARNING : value) - KILN_LOG_DEBUG);
}

void set_cache(const kiln_engine_options& given, EngineOptions& options) {
  options.cache_root = text(given.cache_root);
  if (given.cache_root != nullptr && options.cache_root.empty()) {
    refuse("options->cache_root is empty; leave it NULL for KILN_CACHE_DIR, or name a directory");
  }
  options.cache_group_shared =
      optional_switch(given.cache_group_shared, "options->cache_group_shared");
  options.cache_max_bytes = limit(given.cache_max_bytes);
  options.cache_max_age = age_limit(given.cache_max_age_seconds);
  options.cache_allow_world_writable =
      optional_switch(given.cache_allow_world_writable, "options->cache_allow_world_writable");
  options.read_only_layers = texts(given.layers, given.layer_count, "options->layers");
  options.trusted_keys =
      texts(given.trusted_keys, given.trusted_key_count, "options->trusted_keys");
  if (switched_on(given.exact_toolchain, false, "options->exact_toolchain")) {
    options.layer_toolchains = ToolchainMatch::kExact;
  }
}

void set_compiler(const kiln_engine_options& given, EngineOptions& options) {
  options.jit = jit_policy(given.jit);
  options.nvrtc = text(given.nvrtc);
  options.compile_in_process =
      optional_switch(given.compile_in_process, "options->compile_in_process");
  options.compile_worker = text(given.compile_worker);
  options.compile_jobs = given.compile_jobs;
  // Longer than any process lives, and short enough for a clock of nanoseconds to be added to.
  constexpr std::int64_t kLongest = std::int64_t{100} * 365 * 86400;
  if (given.compile_timeout_seconds > 0) {
    options.compile_timeout =
        std::chrono::seconds(std::min<std::int64_t>(given.compile_timeout_seconds, kLongest));
  }
  if (given.compile_wait_seconds != 0) {
    options.compile_wait =
        std::chrono::seconds(std::clamp<std::int64_t>(given.compile_wait_seconds, 0, kLongest));
  }
}

EngineOptions engine_options(const kiln_engine_options& given) {
  EngineOptions options;
  set_cache(given, options);
  set_compiler(given, options);
  options.record = text(given.record);
  options.trace = text(given.trace);
  options.driver = text(given.driver);
  options.pdl = optional_switch(given.pdl, "options->pdl");
  options.capture_misses = capture_misses(given.capture_misses);
  options.check = optional_switch(given.check, "options->check");
  options.log.level = log_level(given.log_level);
  return options;
}

}  // namespace
}  // namespace kiln::c_api

kiln_status kiln_engine_create(const kiln_engine_options* options, kiln_engine** engine) {
  using namespace kiln::c_api;
  return guard([&] {
    kiln_engine*& made = required(engine, "engine");
    const kiln_engine_options given = read_sized(options, "options");
    made = new kiln_engine(engine_options(given), given.log, given.log_user);
  });
}

void kiln_engine_destroy(kiln_engine* engine) {
  delete engine;
}
