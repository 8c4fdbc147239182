// Each test runs in a process of its own, since what is loaded once stays loaded.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/nvrtc/compiler.hpp"
#include "runtime/nvrtc/elf.hpp"
#include "tests/runtime/nvrtc/toolchains.hpp"
#include "tests/runtime/nvrtc/units.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::runtime {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// What `body` returns, run in a child process.
std::string in_a_process(const std::function<std::string()>& body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const std::string answer = body();
    const bool written = ::write(ends[1], answer.data(), answer.size()) >= 0;
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof(buffer))) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CAPTURE(answer);
  REQUIRE(status == 0);
  return answer;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The files mapped into this process whose name holds `part`, each once, one a line.
std::string mapped(const std::string& part) {
  std::ifstream maps("/proc/self/maps");
  std::string found;
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path != std::string::npos && contains(line.substr(path), part) &&
        !contains(found, line.substr(path) + "\n")) {
      found += line.substr(path) + "\n";
    }
  }
  return found;
}

// Finds, loads and compiles as an engine would; the outcome in words.
std::string try_compile(const ToolchainInputs& inputs) {
  const auto toolchain = find_toolchain(inputs);
  if (!toolchain) {
    return "not found: " + toolchain.error().message;
  }
  const auto nvrtc = Nvrtc::load(*toolchain);
  if (!nvrtc) {
    return "not loaded: " + nvrtc.error().message;
  }
  const auto compiled = test::compile_one(*nvrtc, test::scale_unit());
  return compiled ? "compiled by " + toolchain->version() : "failed: " + compiled.error().message;
}

std::string try_compile(const std::string& place) {
  ToolchainInputs inputs;
  inputs.kiln_nvrtc = place;
  return try_compile(inputs);
}

// The machine's own toolchain. Found in a child, since the loader may have to load it to say where
// it lies, and this process must stay clean of it.
std::vector<Toolchain> own_toolchain() {
  const std::string answer = in_a_process([] {
    const auto found = find_toolchain(ToolchainInputs::from_environment(""));
    return found ? found->nvrtc_path : "none: " + found.error().message;
  });
  if (answer.front() != '/') {
    WARN("skipped: " + answer);
    return {};
  }
  ToolchainInputs inputs;
  inputs.option = answer;
  return {find_toolchain(inputs).value()};
}

std::vector<Toolchain> all_toolchains() {
  return test::with_wheels(own_toolchain());
}

void copy_into(const fs::path& folder, const std::string& library, const std::string& name = "") {
  fs::create_directories(folder);
  fs::copy_file(library, folder / (name.empty() ? fs::path(library).filename() : fs::path(name)));
}

TEST_CASE(
    "With LD_LIBRARY_PATH empty, every NVRTC compiles with the builtins from beside it (field "
    "report 77)") {
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  CHECK((path == nullptr || std::string(path).empty()));
  for (const Toolchain& toolchain : all_toolchains()) {
    // Copied away, so that neither the loader nor a run path knows the builtins.
    const test::TempDir dir;
    copy_into(dir.path(), toolchain.nvrtc_path);
    copy_into(dir.path(), toolchain.builtins_path);
    const std::string answer = in_a_process([&dir] {
      const std::string outcome = try_compile(dir.str());
      return outcome + "\n" + mapped("libnvrtc");
    });
    CHECK(contains(answer, "compiled by " + toolchain.version() + "\n"));
    CHECK(contains(answer, dir.str(fs::path(toolchain.builtins_path).filename().string()) + "\n"));
    CHECK(std::count(answer.begin(), answer.end(), '\n') == 3);  // No other libnvrtc is mapped.
  }
}

TEST_CASE("Missing builtins is an error that names both paths, though the machine has others") {
  for (const Toolchain& toolchain : own_toolchain()) {
    const test::TempDir dir;
    copy_into(dir.path(), toolchain.nvrtc_path);
    const std::string answer = in_a_process([&dir] { return try_compile(dir.str()); });
    CHECK(contains(answer, "not found: "));
    CHECK(contains(answer, dir.str(fs::path(toolchain.nvrtc_path).filename().string())));
    CHECK(contains(answer, dir.str() + " holds no libnvrtc-builtins.so."));
  }
}

TEST_CASE("Builtins of another version is an error that names both paths") {
  for (const Toolchain& own : own_toolchain()) {
    for (const char* version : {test::kOldestWheel, test::kNewestWheel}) {
      for (const Toolchain& other : test::wheel_toolchain(version)) {
        if (other.version() == own.version()) {
          continue;
        }
        const std::string nvrtc = fs::path(own.nvrtc_path).filename().string();
        const std::string builtins = fs::path(other.builtins_path).filename().string();
        const test::TempDir dir;
        copy_into(dir.path(), own.nvrtc_path);
        copy_into(dir.path(), other.builtins_path);
        const std::string answer = in_a_process([&dir] { return try_compile(dir.str()); });
        CHECK(contains(answer, "not loaded: "));
        CHECK(contains(answer, dir.str(nvrtc) + " is NVRTC " + own.version()));
        CHECK(contains(answer, dir.str(builtins)));
      }
    }
  }
}

TEST_CASE("Builtins of another version under the right name is an error that names both paths") {
  for (const Toolchain& own : own_toolchain()) {
    for (const Toolchain& other : test::wheel_toolchain(test::kNewestWheel)) {
      if (other.version() == own.version()) {
        continue;
      }
      const std::string name = fs::path(own.builtins_path).filename().string();
      const test::TempDir dir;
      copy_into(dir.path(), own.nvrtc_path);
      copy_into(dir.path(), other.builtins_path, name);
      const std::string answer = in_a_process([&dir] { return try_compile(dir.str()); });
      CHECK(contains(answer, "not loaded: "));
      CHECK(contains(answer, dir.str(fs::path(own.nvrtc_path).filename().string())));
      CHECK(contains(answer, dir.str(name) + " is not that library"));
    }
  }
}

TEST_CASE(
    "Other builtins of the same name that are loaded already is an error that names both (field "
    "report 79)") {
  for (const Toolchain& own : own_toolchain()) {
    const std::string name = fs::path(own.builtins_path).filename().string();
    const test::TempDir dir;
    std::string changed = read_file(own.builtins_path);
    std::string id;
    for (std::size_t i = 0; i + 1 < own.builtins_id.size(); i += 2) {
      id.push_back(static_cast<char>(std::stoi(own.builtins_id.substr(i, 2), nullptr, 16)));
    }
    REQUIRE(changed.find(id) != std::string::npos);
    changed[changed.find(id)] = static_cast<char>(~id[0]);
    std::ofstream(dir.str(name), std::ios::binary) << changed;
    const std::string answer = in_a_process([&] {
      ::dlopen(dir.str(name).c_str(), RTLD_NOW | RTLD_LOCAL);
      return try_compile(own.nvrtc_path);
    });
    CHECK(contains(answer, "not loaded: "));
    CHECK(contains(answer, dir.str(name)));
    CHECK(contains(answer, own.builtins_path));
    // The very same library from elsewhere is as good.
    fs::remove(dir.str(name));
    copy_into(dir.path(), own.builtins_path);
    CHECK(in_a_process([&] {
            ::dlopen(dir.str(name).c_str(), RTLD_NOW | RTLD_LOCAL);
            return try_compile(own.nvrtc_path);
          }) == "compiled by " + own.version());
  }
}

TEST_CASE("KILN_NVRTC that is nonsense is a clear error, though the machine has an NVRTC") {
  const std::string answer = in_a_process([] {
    ::setenv("KILN_NVRTC", "/nonexistent/libnvrtc.so", 1);
    return try_compile(ToolchainInputs::from_environment(""));
  });
  CHECK(contains(answer, "not found: KILN_NVRTC is set to /nonexistent/libnvrtc.so"));
}

TEST_CASE("Finding a toolchain whose path is known loads nothing of it") {
  for (const Toolchain& toolchain : all_toolchains()) {
    const std::string answer = in_a_process([&toolchain] {
      ToolchainInputs inputs;
      inputs.ask_loader = false;
      inputs.ld_library_path = fs::path(toolchain.nvrtc_path).parent_path().string();
      const auto found = find_toolchain(inputs);
      return (found ? toolchain_key(*found).folder() : found.error().message) + mapped("libnvrtc");
    });
    CHECK(answer == toolchain_key(toolchain).folder());
  }
}

TEST_CASE("Two processes compile one unit to the same bytes") {
  for (const Toolchain& toolchain : all_toolchains()) {
    const auto compile = [&toolchain] {
      const auto nvrtc = Nvrtc::load(toolchain);
      const auto compiled = test::compile_one(*nvrtc, test::scale_unit());
      return compiled ? compiled->cubin : std::string();
    };
    const std::string first = in_a_process(compile);
    CHECK_FALSE(first.empty());
    CHECK(in_a_process(compile) == first);
  }
}

TEST_CASE("Several versions of NVRTC work side by side in one process") {
  const auto toolchains = all_toolchains();
  const std::string answer = in_a_process([&toolchains] {
    std::string outcomes;
    for (const Toolchain& toolchain : toolchains) {
      outcomes += try_compile(toolchain.nvrtc_path) + "\n";
    }
    return outcomes;
  });
  for (const Toolchain& toolchain : toolchains) {
    CHECK(contains(answer, "compiled by " + toolchain.version() + "\n"));
  }
}

}  // namespace
}  // namespace kiln::runtime
