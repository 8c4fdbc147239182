#include "runtime/nvrtc/toolchain.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/nvrtc/search_folders.hpp"
#include "tests/runtime/nvrtc/elf_builder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::runtime {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// What a folder of NVRTC looks like to a search, which reads headers and names only.
class FakeMachine {
 public:
  void library(const std::string& folder, const std::string& file, const std::string& id,
               const std::string& content = "") {
    fs::create_directories(dir_.path() / folder);
    std::ofstream(dir_.str(folder + "/" + file), std::ios::binary)
        << test::make_library(id) << content;
  }
  void set(const std::string& folder, const std::string& version) {
    library(folder, "libnvrtc.so." + version.substr(0, 2), "nvrtc " + folder);
    library(folder, "libnvrtc-builtins.so." + version, "builtins " + folder);
  }
  std::string path(const std::string& name) const { return dir_.str(name); }
  // Nothing outside of this machine is asked.
  ToolchainInputs inputs() const {
    ToolchainInputs inputs;
    inputs.ask_loader = false;
    inputs.system_root = dir_.str();
    return inputs;
  }

 private:
  test::TempDir dir_;
};

std::string problem(const ToolchainInputs& inputs) {
  const auto found = find_toolchain(inputs);
  if (found) {
    return "found " + found->nvrtc_path;
  }
  CHECK(found.error().code == ErrorCode::kCompilerUnavailable);
  return found.error().message;
}

TEST_CASE("A set is libnvrtc and the builtins of its version from beside it (field report 79)") {
  FakeMachine machine;
  machine.set("cuda/lib64", "13.0");
  ToolchainInputs inputs = machine.inputs();
  inputs.kiln_nvrtc = machine.path("cuda/lib64/libnvrtc.so.13");
  const auto found = find_toolchain(inputs);
  REQUIRE(found);
  CHECK(found->nvrtc_path == machine.path("cuda/lib64/libnvrtc.so.13"));
  CHECK(found->builtins_path == machine.path("cuda/lib64/libnvrtc-builtins.so.13.0"));
  CHECK(found->version() == "13.0");
  CHECK(found->nvrtc_id == "6e7672746320637564612f6c69623634");
  CHECK(found->builtins_id != found->nvrtc_id);
  CHECK(found->origin == "KILN_NVRTC");
}

TEST_CASE("KILN_NVRTC may name a folder, whose newest NVRTC is taken") {
  FakeMachine machine;
  machine.set("libs", "12.9");
  machine.library("libs", "libnvrtc.so.13", "newer",
                  std::string("libnvrtc-builtins.so.13.1\0", 26));
  machine.library("libs", "libnvrtc-builtins.so.13.1", "newer builtins");
  ToolchainInputs inputs = machine.inputs();
  inputs.kiln_nvrtc = machine.path("libs");
  CHECK(find_toolchain(inputs).value().version() == "13.1");
}

TEST_CASE("KILN_NVRTC that cannot be used is an error and no fall-back, though another is there") {
  FakeMachine machine;
  machine.set("usr/local/cuda/lib64", "13.0");
  machine.library("bare", "libnvrtc.so.13", "bare");
  fs::create_directories(machine.path("empty"));
  std::ofstream(machine.path("text.so")) << "not a library";
  ToolchainInputs inputs = machine.inputs();
  REQUIRE(find_toolchain(inputs));
  for (const char* name : {"absent.so", "text.so", "empty", "bare", "bare/libnvrtc.so.13"}) {
    CAPTURE(name);
    inputs.kiln_nvrtc = machine.path(name);
    const std::string message = problem(inputs);
    CHECK(contains(message, "KILN_NVRTC is set to " + machine.path(name)));
    CHECK(contains(message, "cannot be used"));
    CHECK(contains(message, "unset it"));
  }
}

TEST_CASE("The engine's option goes before KILN_NVRTC, and is named when it cannot be used") {
  FakeMachine machine;
  machine.set("a", "13.0");
  machine.set("b", "12.8");
  ToolchainInputs inputs = machine.inputs();
  inputs.kiln_nvrtc = machine.path("a");
  inputs.option = machine.path("b");
  CHECK(find_toolchain(inputs).value().version() == "12.8");
  inputs.option = machine.path("c");
  CHECK(contains(problem(inputs), "the engine's nvrtc option is set to " + machine.path("c")));
}

TEST_CASE("Builtins missing beside libnvrtc is an error that names both") {
  FakeMachine machine;
  machine.library("libs", "libnvrtc.so.13", "bare");
  ToolchainInputs inputs = machine.inputs();
  inputs.kiln_nvrtc = machine.path("libs");
  const std::string message = problem(inputs);
  CHECK(contains(message, machine.path("libs/libnvrtc.so.13")));
  CHECK(contains(message, machine.path("libs") + " holds no libnvrtc-builtins.so."));
}

TEST_CASE("Of several builtins, the one that libnvrtc opens is taken") {
  FakeMachine machine;
  machine.library("libs", "libnvrtc.so.13", "id", std::string("libnvrtc-builtins.so.13.1\0", 26));
  for (const char* version : {"13.0", "13.1", "13.10", "12.9"}) {
    machine.library("libs", std::string("libnvrtc-builtins.so.") + version, version);
  }
  machine.library("libs", "libnvrtc-builtins.alt.so.13.1", "alt");
  machine.library("libs", "libnvrtc-builtins.so", "link");
  ToolchainInputs inputs = machine.inputs();
  inputs.kiln_nvrtc = machine.path("libs");
  CHECK(find_toolchain(inputs).value().version() == "13.1");
  fs::remove(machine.path("libs/libnvrtc-builtins.so.13.1"));
  const std::string message = problem(inputs);
  CHECK(contains(message, machine.path("libs/libnvrtc.so.13")));
  CHECK(contains(message, "libnvrtc-builtins.so.13.0"));
}

TEST_CASE("A link to libnvrtc finds the builtins where the library really lies (field report 53)") {
  FakeMachine machine;
  machine.set("real", "13.0");
  fs::create_directories(machine.path("links"));
  fs::create_symlink(machine.path("real/libnvrtc.so.13"), machine.path("links/libnvrtc.so"));
  ToolchainInputs inputs = machine.inputs();
  inputs.kiln_nvrtc = machine.path("links/libnvrtc.so");
  const auto found = find_toolchain(inputs);
  REQUIRE(found);
  CHECK(found->builtins_path == machine.path("real/libnvrtc-builtins.so.13.0"));
}

TEST_CASE("A relative path is made absolute, so that a later change of directory does not matter") {
  FakeMachine machine;
  machine.set("libs", "13.0");
  const fs::path before = fs::current_path();
  fs::current_path(machine.path(""));
  ToolchainInputs inputs = machine.inputs();
  inputs.kiln_nvrtc = "libs/libnvrtc.so.13";
  const auto found = find_toolchain(inputs);
  fs::current_path(before);
  REQUIRE(found);
  CHECK(fs::path(found->nvrtc_path).is_absolute());
  CHECK(fs::exists(found->nvrtc_path));
}

TEST_CASE("NVRTC older than 12.3 or newer than 13 is refused by version") {
  for (const char* version : {"12.2", "14.0", "11.8"}) {
    CAPTURE(version);
    FakeMachine machine;
    machine.set("libs", version);
    ToolchainInputs inputs = machine.inputs();
    inputs.kiln_nvrtc = machine.path("libs/libnvrtc.so.") + std::string(version, 2);
    CHECK(contains(problem(inputs),
                   std::string("is NVRTC ") + version + "; Kiln works with 12.3 up to 13.x"));
  }
  FakeMachine machine;
  machine.set("libs", "12.3");
  ToolchainInputs inputs = machine.inputs();
  inputs.kiln_nvrtc = machine.path("libs");
  CHECK(find_toolchain(inputs));
}

TEST_CASE("Without a setting, each place is asked in its turn") {
  FakeMachine machine;
  ToolchainInputs inputs = machine.inputs();
  inputs.ld_library_path = "/nonexistent::" + machine.path("ld");
  inputs.cuda_home = machine.path("cuda_home");
  inputs.cuda_path = machine.path("cuda_path");
  inputs.virtual_env = machine.path("venv");
  inputs.conda_prefix = machine.path("conda");
  inputs.home = machine.path("home");
  // From the last place to the first: each newly made set is the one that is found.
  for (const char* folder :
       {"usr/lib/python3/dist-packages/nvidia/cu13/lib",
        "usr/local/lib/python3.12/dist-packages/nvidia/cuda_nvrtc/lib",
        "home/.local/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib", "conda/lib",
        "conda/lib/python3.9/site-packages/nvidia/cu13/lib",
        "venv/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib",
        "venv/lib/python3.9/site-packages/nvidia/cu13/lib",
        "venv/lib/python3.11/site-packages/nvidia/cu13/lib", "opt/cuda/lib64",
        "usr/local/cuda-12.9/lib64", "usr/local/cuda-12.10/lib64",
        "usr/local/cuda-13.0/targets/x86_64-linux/lib", "usr/local/cuda/lib64", "cuda_path/lib",
        "cuda_home/targets/x86_64-linux/lib", "cuda_home/lib64", "ld"}) {
    CAPTURE(folder);
    machine.set(folder, "13.0");
    const auto found = find_toolchain(inputs);
    REQUIRE(found);
    CHECK(found->nvrtc_path == machine.path(folder) + "/libnvrtc.so.13");
    CHECK(found->passed_over.empty());
  }
}

TEST_CASE("An incomplete set is passed over for a complete one, and the reason is kept") {
  FakeMachine machine;
  machine.library("broken/lib64", "libnvrtc.so.13", "bare");
  machine.set("old/lib64", "12.2");
  machine.set("usr/local/cuda/lib64", "12.9");
  ToolchainInputs inputs = machine.inputs();
  inputs.cuda_home = machine.path("broken");
  inputs.cuda_path = machine.path("old");
  const auto found = find_toolchain(inputs);
  REQUIRE(found);
  CHECK(found->version() == "12.9");
  REQUIRE(found->passed_over.size() == 2);
  CHECK(contains(found->passed_over[0], machine.path("broken/lib64/libnvrtc.so.13")));
  CHECK(contains(found->passed_over[1], "is NVRTC 12.2"));
}

TEST_CASE(
    "When there is none, the error lists every place searched and what to do (field report 84)") {
  FakeMachine machine;
  machine.library("broken/lib64", "libnvrtc.so.13", "bare");
  ToolchainInputs inputs = machine.inputs();
  inputs.ld_library_path = machine.path("ld");
  inputs.cuda_home = machine.path("broken");
  inputs.virtual_env = machine.path("venv");
  const std::string message = problem(inputs);
  for (const auto& folders : {loader_folders(inputs), usual_folders(inputs)}) {
    REQUIRE_FALSE(folders.empty());
    for (const SearchFolder& folder : folders) {
      CAPTURE(folder.path);
      CHECK(contains(message, folder.path + " (" + folder.origin + ")"));
    }
  }
  CHECK(contains(message, "set KILN_NVRTC"));
  CHECK(contains(message, "Passed over:\n  " + machine.path("broken/lib64/libnvrtc.so.13")));
  CHECK(contains(message, machine.path("usr/local/cuda/lib64")));
}

TEST_CASE("Without CUDA_HOME no path is built from an empty string (field report 84)") {
  FakeMachine machine;
  for (const SearchFolder& folder : usual_folders(machine.inputs())) {
    CAPTURE(folder.path);
    CHECK(folder.path.starts_with(machine.path("")));
  }
}

TEST_CASE("The toolchain key follows both build ids and shows the version") {
  Toolchain toolchain;
  toolchain.major = 13;
  toolchain.minor = 0;
  toolchain.nvrtc_path = "/a/libnvrtc.so.13";
  toolchain.nvrtc_id = "65be";
  toolchain.builtins_id = "08d1";
  const cache::ToolchainKey key = toolchain_key(toolchain);
  CHECK(key.folder() == "13.0-" + key.digest.hex());
  Toolchain moved = toolchain;
  moved.nvrtc_path = "/b/libnvrtc.so.13";
  CHECK(toolchain_key(moved).material == key.material);
  Toolchain other = toolchain;
  other.nvrtc_id = "65bf";
  CHECK(toolchain_key(other).digest != key.digest);
  other = toolchain;
  other.builtins_id = "08d2";
  CHECK(toolchain_key(other).digest != key.digest);
  other.nvrtc_id = "08d1";
  other.builtins_id = "65be";
  CHECK(toolchain_key(other).digest != key.digest);
}

}  // namespace
}  // namespace kiln::runtime
