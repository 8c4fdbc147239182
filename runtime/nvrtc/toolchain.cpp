#include "runtime/nvrtc/toolchain.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include "runtime/nvrtc/elf.hpp"
#include "runtime/nvrtc/search_folders.hpp"

namespace kiln::runtime {
namespace {

namespace fs = std::filesystem;

// Newest first.
constexpr const char* kLibraryNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr std::string_view kBuiltinsPrefix = "libnvrtc-builtins.so.";

struct Builtins {
  std::string path;
  int major = 0;
  int minor = 0;
};

// "libnvrtc-builtins.so.13.0"; anything longer or shorter is not what NVRTC asks for.
std::optional<Builtins> parse_builtins(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kBuiltinsPrefix)) {
    return std::nullopt;
  }
  Builtins builtins{path.string(), 0, 0};
  const char* const end = name.data() + name.size();
  const auto major = std::from_chars(name.data() + kBuiltinsPrefix.size(), end, builtins.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') {
    return std::nullopt;
  }
  const auto minor = std::from_chars(major.ptr + 1, end, builtins.minor);
  if (minor.ec != std::errc() || minor.ptr != end) {
    return std::nullopt;
  }
  return builtins;
}

std::vector<Builtins> builtins_in(const fs::path& folder) {
  std::vector<Builtins> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (auto builtins = parse_builtins(entry->path())) {
      found.push_back(std::move(*builtins));
    }
  }
  return found;
}

// The builtins library beside `library`, as it is named and, where that is a link, as it really
// lies. Only where there are several is libnvrtc's content asked which one it will open; that a
// lone one is the right one is checked when the set is loaded.
Result<Builtins> builtins_beside(const std::string& library) {
  std::error_code error;
  const fs::path named = fs::path(library).parent_path();
  const fs::path real = fs::canonical(library, error).parent_path();
  std::vector<Builtins> found = builtins_in(named);
  if (found.empty() && real != named) {
    found = builtins_in(real);
  }
  if (found.size() == 1) {
    return found.front();
  }
  std::vector<std::string> names;
  for (const Builtins& builtins : found) {
    const std::string name = fs::path(builtins.path).filename().string();
    // With its terminating zero, so that 13.1 is not found in 13.10.
    if (file_contains(library, std::string_view(name.c_str(), name.size() + 1))) {
      return builtins;
    }
    names.push_back(name);
  }
  return fail(ErrorCode::kCompilerUnavailable,
              fmt::format("{} has no builtins library of its version beside it: {} holds {}",
                          library, real.string(),
                          found.empty() ? fmt::format("no {}*", kBuiltinsPrefix)
                                        : fmt::format("only {}", fmt::join(names, ", "))));
}

bool supported(int major, int minor) {
  return std::pair(major, minor) >= std::pair(kOldestNvrtcMajor, kOldestNvrtcMinor) &&
         major <= kNewestNvrtcMajor;
}

// The set that the libnvrtc file `library` belongs to.
Result<Toolchain> examine(const std::string& library, const std::string& origin) {
  const auto unavailable = [](const Failure& failure) {
    return fail(ErrorCode::kCompilerUnavailable, failure.message);
  };
  Toolchain toolchain;
  toolchain.nvrtc_path = library;
  toolchain.origin = origin;
  auto nvrtc_id = library_id(library);
  if (!nvrtc_id) {
    return unavailable(nvrtc_id.error());
  }
  auto builtins = builtins_beside(library);
  if (!builtins) {
    return tl::unexpected(std::move(builtins.error()));
  }
  auto builtins_id = library_id(builtins->path);
  if (!builtins_id) {
    return unavailable(builtins_id.error());
  }
  toolchain.builtins_path = std::move(builtins->path);
  toolchain.major = builtins->major;
  toolchain.minor = builtins->minor;
  toolchain.nvrtc_id = std::move(*nvrtc_id);
  toolchain.builtins_id = std::move(*builtins_id);
  if (!supported(toolchain.major, toolchain.minor)) {
    return fail(
        ErrorCode::kCompilerUnavailable,
        fmt::format("{} is NVRTC {}; Kiln works with {}.{} up to {}.x", library,
                    toolchain.version(), kOldestNvrtcMajor, kOldestNvrtcMinor, kNewestNvrtcMajor));
  }
  return toolchain;
}

std::optional<std::string> library_in(const fs::path& folder) {
  std::error_code error;
  for (const char* name : kLibraryNames) {
    if (fs::is_regular_file(folder / name, error)) {
      return (folder / name).string();
    }
  }
  return std::nullopt;
}

// A place that the user named: a library, or the folder of one.
Result<Toolchain> examine_named(const std::string& place, const std::string& setting) {
  std::error_code error;
  // Absolute, so that it stays the same file when the working directory changes, and so that the
  // loader takes it as a path.
  const fs::path path = fs::absolute(place, error);
  std::optional<std::string> library = path.string();
  if (fs::is_directory(path, error)) {
    library = library_in(path);
  }
  Result<Toolchain> toolchain =
      library ? examine(*library, setting)
              : fail(ErrorCode::kCompilerUnavailable,
                     fmt::format("{} holds no {}", place, fmt::join(kLibraryNames, " or ")));
  if (!toolchain) {
    return fail(ErrorCode::kCompilerUnavailable,
                fmt::format("{} is set to {}, which cannot be used: {}. Set it to libnvrtc of CUDA "
                            "{}.{} or newer, or unset it to search the usual places.",
                            setting, place, toolchain.error().message, kOldestNvrtcMajor,
                            kOldestNvrtcMinor));
  }
  return toolchain;
}

// Where the dynamic loader finds `name`. Only the loader knows its own cache and search path, so
// the library is loaded to learn it. It stays loaded: unloading libnvrtc leaks what its C++ runtime
// allocated, and Nvrtc::load would only load it again.
std::optional<std::string> loaders_path(const char* name) {
  void* const handle = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  link_map* map = nullptr;
  if (handle == nullptr || ::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
    return std::nullopt;
  }
  return map->l_name;
}

// One search: takes the first usable set, and remembers what it saw on the way.
class Search {
 public:
  bool look_at(const std::string& library, const std::string& origin) {
    auto toolchain = examine(library, origin);
    if (!toolchain) {
      passed_over_.push_back(toolchain.error().message);
      return false;
    }
    found_ = std::move(*toolchain);
    return true;
  }
  bool look_in(const std::vector<SearchFolder>& folders) {
    for (const SearchFolder& folder : folders) {
      searched_.push_back(fmt::format("{} ({})", folder.path, folder.origin));
      const auto library = library_in(folder.path);
      if (library && look_at(*library, folder.origin)) {
        return true;
      }
    }
    return false;
  }
  bool ask_loader() {
    for (const char* name : kLibraryNames) {
      searched_.push_back(fmt::format("{} (the dynamic loader)", name));
      const auto library = loaders_path(name);
      if (library && look_at(*library, "the dynamic loader")) {
        return true;
      }
    }
    return false;
  }
  Result<Toolchain> take() {
    if (found_) {
      found_->passed_over = std::move(passed_over_);
      return std::move(*found_);
    }
    std::string message = fmt::format(
        "no usable NVRTC ({}.{} or newer) was found. Install a CUDA toolkit or the Python package "
        "nvidia-cuda-nvrtc, or set KILN_NVRTC to the path of libnvrtc.so. Searched:\n  {}",
        kOldestNvrtcMajor, kOldestNvrtcMinor, fmt::join(searched_, "\n  "));
    if (!passed_over_.empty()) {
      message += fmt::format("\nPassed over:\n  {}", fmt::join(passed_over_, "\n  "));
    }
    return fail(ErrorCode::kCompilerUnavailable, std::move(message));
  }

 private:
  std::optional<Toolchain> found_;
  std::vector<std::string> searched_;
  std::vector<std::string> passed_over_;
};

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

ToolchainInputs ToolchainInputs::from_environment(std::string option) {
  ToolchainInputs inputs;
  inputs.option = std::move(option);
  inputs.kiln_nvrtc = environment("KILN_NVRTC");
  inputs.ld_library_path = environment("LD_LIBRARY_PATH");
  inputs.cuda_home = environment("CUDA_HOME");
  inputs.cuda_path = environment("CUDA_PATH");
  inputs.virtual_env = environment("VIRTUAL_ENV");
  inputs.conda_prefix = environment("CONDA_PREFIX");
  inputs.home = environment("HOME");
  return inputs;
}

Result<Toolchain> find_toolchain(const ToolchainInputs& inputs) {
  if (!inputs.option.empty()) {
    return examine_named(inputs.option, "the engine's nvrtc option");
  }
  if (!inputs.kiln_nvrtc.empty()) {
    return examine_named(inputs.kiln_nvrtc, "KILN_NVRTC");
  }
  Search search;
  if (!search.look_in(loader_folders(inputs)) && !(inputs.ask_loader && search.ask_loader())) {
    search.look_in(usual_folders(inputs));
  }
  return search.take();
}

cache::ToolchainKey toolchain_key(const Toolchain& toolchain) {
  cache::KeyWriter key("kiln.toolchain", 1);
  key.text("nvrtc", toolchain.nvrtc_id);
  key.text("builtins", toolchain.builtins_id);
  key.text("version", toolchain.version());
  return {toolchain.major, toolchain.minor, std::move(key).take()};
}

}  // namespace kiln::runtime
