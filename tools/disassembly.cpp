#include "tools/disassembly.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/file_system.hpp"
#include "cache/key.hpp"
#include "runtime/nvrtc/source_key.hpp"
#include "runtime/nvrtc/toolchain.hpp"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Fields of the unit that a field of the key fills in.
void fill_in(const cache::KeyField& field, registry::CompileUnit& unit) {
  if (field.name == "target") {
    unit.target = parse_target(field.values.at(0));
  } else if (field.name == "options") {
    unit.options = field.values;
  } else if (field.name == "instantiation") {
    unit.name_expression = field.values.at(0);
  } else if (field.name == "template name") {
    unit.main.name = field.values.at(0);
  } else if (field.name == "template") {
    unit.main.text = field.values.at(0);
  } else if (field.name == "header name") {
    unit.headers.push_back({field.values.at(0), ""});
  } else if (field.name == "header" && !unit.headers.empty()) {
    unit.headers.back().text = field.values.at(0);
  }
}

// The options of the key are the fixed ones, then the unit's own.
void drop_fixed_options(registry::CompileUnit& unit) {
  registry::CompileUnit bare;
  bare.target = unit.target;
  const std::size_t fixed = runtime::compile_options(bare).size();
  const auto first = unit.options.begin();
  unit.options.erase(first,
                     first + static_cast<std::ptrdiff_t>(std::min(fixed, unit.options.size())));
}

}  // namespace

Result<registry::CompileUnit> unit_of(const cache::Entry& entry) {
  const Result<std::vector<cache::KeyField>> fields = cache::parse_key(entry.source.material);
  if (!fields) {
    return tl::unexpected(fields.error());
  }
  registry::CompileUnit unit;
  unit.label = entry.label;
  for (const cache::KeyField& field : *fields) {
    fill_in(field, unit);
  }
  drop_fixed_options(unit);
  if (runtime::source_key(unit).material != entry.source.material) {
    return fail(ErrorCode::kInvalidArgument,
                "its key was written by another version of Kiln, so it is not known what it was "
                "compiled from");
  }
  return unit;
}

Result<PtxWriter> PtxWriter::make() {
  const auto toolchain = runtime::find_toolchain(runtime::ToolchainInputs::from_environment(""));
  if (!toolchain) {
    return tl::unexpected(toolchain.error());
  }
  Result<runtime::Nvrtc> nvrtc = runtime::Nvrtc::load(*toolchain);
  if (!nvrtc) {
    return tl::unexpected(std::move(nvrtc.error()));
  }
  return PtxWriter(std::move(*nvrtc));
}

Result<std::string> PtxWriter::write(const cache::Entry& entry) const {
  const Result<registry::CompileUnit> unit = unit_of(entry);
  if (!unit) {
    return tl::unexpected(unit.error());
  }
  Result<runtime::CompiledProgram> program = nvrtc_.compile({&*unit, 1});
  if (!program) {
    return tl::unexpected(std::move(program.error()));
  }
  const cache::ToolchainKey here = runtime::toolchain_key(nvrtc_.toolchain());
  if (here.digest == entry.toolchain.digest) {
    return std::move(program->ptx);
  }
  return fmt::format(
      "// From NVRTC {}.{}; the entry was made by another one, of version {}.{}.\n{}", here.major,
      here.minor, entry.toolchain.major, entry.toolchain.minor, program->ptx);
}

Result<std::string> find_nvdisasm() {
  std::vector<std::string> folders;
  for (const char* const root : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string place = variable(root); !place.empty()) {
      folders.push_back(place + "/bin");
    }
  }
  std::istringstream path(variable("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    folders.push_back(folder);
  }
  folders.emplace_back("/usr/local/cuda/bin");
  for (const std::string& folder : folders) {
    std::string place = (fs::path(folder) / "nvdisasm").string();
    std::error_code error;
    if (fs::is_regular_file(place, error) && ::access(place.c_str(), X_OK) == 0) {
      return place;
    }
  }
  return fail(ErrorCode::kIo,
              "SASS is written by nvdisasm, which was found neither in $CUDA_HOME/bin, "
              "$CUDA_PATH/bin and /usr/local/cuda/bin nor along PATH. It comes with the CUDA "
              "toolkit, as the package cuda-nvdisasm");
}

Status write_sass(const std::string& nvdisasm, const std::string& cubin, const std::string& sass) {
  std::array<std::string, 3> words = {nvdisasm, "--print-code", cubin};
  std::array<char*, 4> arguments = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, sass.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0666);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, nvdisasm.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return fail(ErrorCode::kIo,
                fmt::format("{} could not be run: {}", nvdisasm, cache::errno_text(error)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(ErrorCode::kIo,
                fmt::format("{} failed on {} (status {})", nvdisasm, cubin, status));
  }
  return {};
}

}  // namespace kiln::tools
