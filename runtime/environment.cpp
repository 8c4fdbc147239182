#include "runtime/environment.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace kiln::runtime {
namespace {

constexpr int kMaxCompileJobs = 1024;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The option, else the variable's paths between colons.
std::vector<std::string> paths(const std::vector<std::string>& option, const char* name) {
  if (!option.empty()) {
    return option;
  }
  std::vector<std::string> found;
  std::istringstream rest(variable(name));
  for (std::string path; std::getline(rest, path, ':');) {
    if (!path.empty()) {
      found.push_back(std::move(path));
    }
  }
  return found;
}

bool flag(const char* name) {
  const std::string value = variable(name);
  return !value.empty() && value != "0";
}

// The option, else what the variable says. A limit that cannot be understood is none: removing too
// much would be worse than too little.
template <class Value, class Parse>
std::optional<Value> limit(const std::optional<Value>& option, const char* name, Parse&& parse,
                           std::vector<std::string>& warnings) {
  const std::string text = variable(name);
  if (option || text.empty()) {
    return option;
  }
  Result<Value> parsed = parse(text);
  if (!parsed) {
    warnings.push_back(fmt::format("cache: {} is not understood, so there is no such limit: {}.",
                                   name, parsed.error().message));
    return std::nullopt;
  }
  return *parsed;
}

JitPolicy jit_policy() {
  const std::string text = variable("KILN_JIT");
  if (text.empty() || text == "allow") {
    return JitPolicy::kAllow;
  }
  if (text == "warn") {
    return JitPolicy::kWarn;
  }
  if (text == "forbid") {
    return JitPolicy::kForbid;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("KILN_JIT is \"{}\"; it must be allow, warn or forbid", text));
}

CaptureMisses capture_policy() {
  const std::string text = variable("KILN_CAPTURE_MISSES");
  if (text.empty() || text == "load") {
    return CaptureMisses::kLoad;
  }
  if (text == "error") {
    return CaptureMisses::kError;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("KILN_CAPTURE_MISSES is \"{}\"; it must be load or error", text));
}

int parse_jobs(int option, std::vector<std::string>& warnings) {
  const std::string text = variable("KILN_COMPILE_JOBS");
  if (option > 0 || text.empty()) {
    return std::max(option, 0);
  }
  int jobs = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), jobs);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || jobs < 1 ||
      jobs > kMaxCompileJobs) {
    warnings.push_back(
        fmt::format("compile: KILN_COMPILE_JOBS is \"{}\", not a number from 1 to {}, "
                    "and is left out.",
                    text, kMaxCompileJobs));
    return 0;
  }
  return jobs;
}

std::string text(const std::string& option, const char* name) {
  return option.empty() ? variable(name) : option;
}

}  // namespace

Environment Environment::read(const EngineOptions& options) {
  Environment environment;
  environment.root = {.option = options.cache_root,
                      .kiln_cache_dir = variable("KILN_CACHE_DIR"),
                      .xdg_cache_home = variable("XDG_CACHE_HOME"),
                      .home = variable("HOME"),
                      .tmpdir = variable("TMPDIR")};
  environment.root.trust.group_shared =
      options.cache_group_shared.value_or(flag("KILN_CACHE_GROUP"));
  environment.root.trust.allow_world_writable =
      options.cache_allow_world_writable.value_or(flag("KILN_CACHE_ALLOW_WORLD_WRITABLE"));
  environment.limits.max_bytes = limit(options.cache_max_bytes, "KILN_CACHE_MAX_BYTES",
                                       cache::parse_bytes, environment.warnings);
  environment.limits.max_age =
      limit(options.cache_max_age, "KILN_CACHE_MAX_AGE", cache::parse_age, environment.warnings);
  environment.layers = paths(options.read_only_layers, "KILN_CACHE_LAYERS");
  environment.trusted_keys = paths(options.trusted_keys, "KILN_TRUSTED_KEYS");
  environment.toolchain = ToolchainInputs::from_environment(options.nvrtc);
  environment.jit = options.jit ? *options.jit : jit_policy();
  environment.compile_in_process =
      options.compile_in_process.value_or(flag("KILN_COMPILE_IN_PROCESS"));
  environment.compile_worker = text(options.compile_worker, "KILN_COMPILE_WORKER");
  environment.compile_jobs = parse_jobs(options.compile_jobs, environment.warnings);
  environment.record = text(options.record, "KILN_RECORD");
  environment.trace = text(options.trace, "KILN_TRACE");
  environment.line_info = flag("KILN_LINEINFO");
  environment.check = options.check.value_or(flag("KILN_CHECK"));
  environment.pdl = options.pdl.value_or(variable("KILN_PDL") != "0");
  environment.capture_misses = options.capture_misses ? *options.capture_misses : capture_policy();
  return environment;
}

}  // namespace kiln::runtime
