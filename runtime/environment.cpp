#include "runtime/environment.hpp"

#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include <unistd.h>

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

}  // namespace

Environment Environment::read(const EngineOptions& options) {
  Environment environment;
  environment.root = {.option = options.cache_root,
                      .kiln_cache_dir = variable("KILN_CACHE_DIR"),
                      .xdg_cache_home = variable("XDG_CACHE_HOME"),
                      .home = variable("HOME"),
                      .tmpdir = variable("TMPDIR"),
                      .uid = geteuid()};
  environment.layers = paths(options.read_only_layers, "KILN_CACHE_LAYERS");
  environment.trusted_keys = paths(options.trusted_keys, "KILN_TRUSTED_KEYS");
  environment.toolchain = ToolchainInputs::from_environment(options.nvrtc);
  const std::string check = variable("KILN_CHECK");
  environment.check = options.check.value_or(!check.empty() && check != "0");
  return environment;
}

}  // namespace kiln::runtime
