#include "runtime/nvrtc/search_folders.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace kiln::runtime {
namespace {

namespace fs = std::filesystem;

// The numbers in a name such as "cuda-12.9", for ordering versions as versions.
std::vector<int> numbers_in(std::string_view name) {
  std::vector<int> numbers;
  while (!name.empty()) {
    int value = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
    if (error == std::errc::invalid_argument) {
      name.remove_prefix(1);
      continue;
    }
    numbers.push_back(value);
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  }
  return numbers;
}

// Folders directly in `parent` whose names begin with `prefix`, newest version first.
std::vector<fs::path> versioned_folders(const fs::path& parent, std::string_view prefix) {
  std::vector<std::pair<std::vector<int>, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(prefix)) {
      found.emplace_back(numbers_in(std::string_view(name).substr(prefix.size())), entry->path());
    }
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> folders;
  for (auto& [version, path] : found) {
    folders.push_back(std::move(path));
  }
  return folders;
}

class Folders {
 public:
  void toolkit(const fs::path& root, const std::string& origin) {
    add(root / "lib64", origin);
    add(root / "targets/x86_64-linux/lib", origin);
    add(root / "lib", origin);
  }
  // `parent` is the lib folder of a Python installation, an environment or a user.
  void wheels(const fs::path& parent, const std::string& origin) {
    const std::vector<fs::path> pythons = versioned_folders(parent, "python");
    if (pythons.empty()) {
      add(parent / "python*", origin);  // For the list of places searched.
    }
    for (const fs::path& python : pythons) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        const fs::path nvidia = python / packages / "nvidia";
        for (const fs::path& cuda : versioned_folders(nvidia, "cu1")) {
          add(cuda / "lib", origin);
        }
        add(nvidia / "cuda_nvrtc/lib", origin);
      }
    }
  }
  void add(const fs::path& path, const std::string& origin) {
    folders_.push_back({path.string(), origin});
  }
  std::vector<SearchFolder> take() { return std::move(folders_); }

 private:
  std::vector<SearchFolder> folders_;
};

}  // namespace

std::vector<SearchFolder> loader_folders(const ToolchainInputs& inputs) {
  std::vector<SearchFolder> folders;
  std::string_view rest = inputs.ld_library_path;
  while (!rest.empty()) {
    const std::size_t end = rest.find_first_of(":;");
    if (const std::string_view folder = rest.substr(0, end); !folder.empty()) {
      folders.push_back({std::string(folder), "LD_LIBRARY_PATH"});
    }
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return folders;
}

std::vector<SearchFolder> usual_folders(const ToolchainInputs& inputs) {
  Folders folders;
  for (const auto& [root, origin] :
       {std::pair(inputs.cuda_home, "CUDA_HOME"), std::pair(inputs.cuda_path, "CUDA_PATH")}) {
    if (!root.empty()) {
      folders.toolkit(root, origin);
    }
  }
  const fs::path system = inputs.system_root;
  folders.toolkit(system / "usr/local/cuda", "a toolkit's usual place");
  for (const char* parent : {"usr/local", "opt"}) {
    for (const fs::path& root : versioned_folders(system / parent, "cuda-")) {
      folders.toolkit(root, "a toolkit's usual place");
    }
  }
  folders.toolkit(system / "opt/cuda", "a toolkit's usual place");

  for (const auto& [root, origin] : {std::pair(inputs.virtual_env, "VIRTUAL_ENV"),
                                     std::pair(inputs.conda_prefix, "CONDA_PREFIX")}) {
    if (!root.empty()) {
      folders.wheels(fs::path(root) / "lib", origin);
      folders.add(fs::path(root) / "lib", origin);
    }
  }
  if (!inputs.home.empty()) {
    folders.wheels(fs::path(inputs.home) / ".local/lib", "a Python wheel of this user");
  }
  folders.wheels(system / "usr/local/lib", "a Python wheel");
  folders.wheels(system / "usr/lib", "a Python wheel");
  return folders.take();
}

}  // namespace kiln::runtime
