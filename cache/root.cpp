#include "cache/root.hpp"

#include <string_view>

#include <fmt/format.h>

namespace kiln::cache {
namespace {

bool is_absolute(std::string_view path) {
  return path.starts_with('/');
}

std::string problem_of(std::string_view path) {
  return is_absolute(path) ? ""
                           : "the path is not absolute, and nothing is found through the "
                             "working directory";
}

}  // namespace

RootChoice choose_root(const RootInputs& inputs) {
  using Origin = RootChoice::Origin;
  if (!inputs.option.empty()) {
    return {inputs.option, Origin::kOption, "as set by the caller", problem_of(inputs.option)};
  }
  if (!inputs.kiln_cache_dir.empty()) {
    return {inputs.kiln_cache_dir, Origin::kEnvironment, "from KILN_CACHE_DIR",
            problem_of(inputs.kiln_cache_dir)};
  }
  if (is_absolute(inputs.xdg_cache_home)) {
    return {inputs.xdg_cache_home + "/kiln", Origin::kXdg, "from XDG_CACHE_HOME", ""};
  }
  if (is_absolute(inputs.home)) {
    return {inputs.home + "/.cache/kiln", Origin::kHome, "from HOME", ""};
  }
  return {"", Origin::kNone, "neither KILN_CACHE_DIR, XDG_CACHE_HOME nor HOME is set", ""};
}

std::string root_remedy(RootChoice::Origin origin) {
  return origin == RootChoice::Origin::kOption
             ? "Another directory can be named where this one was, by the option cache_root "
               "(--cache), or by KILN_CACHE_DIR without it."
             : "Set KILN_CACHE_DIR to the absolute path of a directory that this user can write.";
}

std::string fallback_root(const RootInputs& inputs) {
  return fmt::format("{}/kiln-{}", is_absolute(inputs.tmpdir) ? inputs.tmpdir : "/tmp",
                     inputs.trust.uid);
}

}  // namespace kiln::cache
