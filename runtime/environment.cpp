#include "runtime/environment.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

#include <unistd.h>

namespace kiln::runtime {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
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
  environment.toolchain = ToolchainInputs::from_environment(options.nvrtc);
  const std::string check = variable("KILN_CHECK");
  environment.check = options.check.value_or(!check.empty() && check != "0");
  return environment;
}

}  // namespace kiln::runtime
