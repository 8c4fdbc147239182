#include "runtime/environment.hpp"

#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

namespace kiln::runtime {
namespace {

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
  environment.layers = paths(options.read_only_layers, "KILN_CACHE_LAYERS");
  environment.trusted_keys = paths(options.trusted_keys, "KILN_TRUSTED_KEYS");
  environment.toolchain = ToolchainInputs::from_environment(options.nvrtc);
  environment.check = options.check.value_or(flag("KILN_CHECK"));
  return environment;
}

}  // namespace kiln::runtime
