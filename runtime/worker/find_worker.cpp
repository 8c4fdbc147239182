#include "runtime/worker/find_worker.hpp"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <unistd.h>

#include "cache/file_system.hpp"

namespace kiln::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "kiln-compile-worker";

// Beside the file that holds the code: as installed, then as built, where programs lie up to three
// folders deep.
constexpr const char* kFolders[] = {".", "../libexec/kiln", "../lib/kiln", "../../libexec/kiln",
                                    "../../../libexec/kiln"};

// Empty, or why this is no program that can be run.
std::string problem_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return "there is no such file";
  }
  if (!fs::is_regular_file(status)) {
    return "it is no file";
  }
  return ::access(path.c_str(), X_OK) == 0 ? "" : cache::errno_text(errno);
}

Result<std::string> named(const std::string& place, const char* setting) {
  std::error_code error;
  const fs::path path = fs::absolute(place, error);
  if (const std::string problem = problem_of(path); !problem.empty()) {
    return fail(ErrorCode::kIo,
                fmt::format("{} is set to {}, which cannot be run: {}. Set it to the path of {}, "
                            "or unset it to search beside Kiln.",
                            setting, place, problem, kName));
  }
  return path.string();
}

}  // namespace

std::string file_of_this_code() {
  Dl_info info{};
  void* extra = nullptr;
  std::error_code error;
  const int found =
      ::dladdr1(reinterpret_cast<const void*>(&file_of_this_code), &info, &extra, RTLD_DL_LINKMAP);
  const auto* const map = static_cast<const link_map*>(extra);
  if (found == 0 || map == nullptr || map->l_name == nullptr || *map->l_name == '\0') {
    // The program itself. The loader knows it by the name that it was started by, which says
    // nothing once the working directory has changed.
    return fs::read_symlink("/proc/self/exe", error).string();
  }
  return fs::canonical(map->l_name, error).string();
}

Result<std::string> find_worker(const WorkerInputs& inputs) {
  if (!inputs.option.empty()) {
    return named(inputs.option,
                 "the compile worker (EngineOptions::compile_worker, KILN_COMPILE_WORKER)");
  }
  if (inputs.code_file.empty()) {
    return fail(ErrorCode::kIo, fmt::format("no {} was found: it is not known where Kiln lies. Set "
                                            "KILN_COMPILE_WORKER to its path.",
                                            kName));
  }
  std::vector<std::string> searched;
  const fs::path folder = fs::path(inputs.code_file).parent_path();
  for (const char* relative : kFolders) {
    const std::string place = (folder / relative / kName).lexically_normal().string();
    const std::string problem = problem_of(place);
    if (problem.empty()) {
      return place;
    }
    searched.push_back(fmt::format("{}: {}", place, problem));
  }
  return fail(
      ErrorCode::kIo,
      fmt::format("no {} was found. Install it with Kiln, or set KILN_COMPILE_WORKER to its "
                  "path. Searched:\n  {}",
                  kName, fmt::join(searched, "\n  ")));
}

}  // namespace kiln::runtime
