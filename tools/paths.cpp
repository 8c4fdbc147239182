#include "tools/paths.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include <kiln/error.hpp>

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& what, const std::string& path, int code) {
  throw Error(ErrorCode::kIo, fmt::format("{} '{}': {}", what, path, cache::errno_text(code)));
}

}  // namespace

std::string absolute_path(const std::string& path) {
  if (path.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "a path is empty, where one was expected; is a shell variable unset?");
  }
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) {
    throw Error(ErrorCode::kIo,
                fmt::format("the path '{}' is relative, and the working directory cannot be had: "
                            "{}. Go to another one, or name an absolute path",
                            path, cache::errno_text(error.value())));
  }
  return absolute.string();
}

std::string canonical_path(cache::FileSystem& disk, const std::string& path) {
  const auto found = disk.canonical(absolute_path(path));
  if (!found) {
    refuse("no file can be found by the path", path, found.error());
  }
  return *found;
}

void require_existence(const std::string& path, const std::string& what) {
  std::error_code error;
  if (!fs::exists(fs::status(absolute_path(path), error))) {
    refuse(what, path, error ? error.value() : ENOENT);
  }
}

void require_directory(const std::string& path, const std::string& what) {
  require_existence(path, what);
  std::error_code error;
  if (!fs::is_directory(absolute_path(path), error)) {
    refuse(what, path, error ? error.value() : ENOTDIR);
  }
}

void require_named_cache(const std::string& named) {
  if (!named.empty()) {
    return require_directory(named, "there is no cache directory");
  }
  const char* const variable = std::getenv("KILN_CACHE_DIR");
  const std::string root = variable != nullptr ? variable : "";
  if (root.empty()) {
    return;
  }
  if (!root.starts_with('/')) {
    throw Error(ErrorCode::kIo, fmt::format("KILN_CACHE_DIR names '{}', which is not an absolute "
                                            "path",
                                            root));
  }
  require_directory(root, "KILN_CACHE_DIR names no directory");
}

}  // namespace kiln::tools
