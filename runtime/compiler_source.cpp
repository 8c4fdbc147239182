#include "runtime/compiler_source.hpp"

#include <algorithm>
#include <utility>

namespace kiln::runtime {

CompilerSource::CompilerSource(CompilerOptions options, const Logger& logger)
    : options_(std::move(options)), logger_(logger) {}
CompilerSource::~CompilerSource() = default;

const Result<Toolchain>& CompilerSource::toolchain() {
  std::call_once(found_once_, [this] {
    if (options_.forbidden) {
      toolchain_.emplace(
          fail(ErrorCode::kCompilerUnavailable,
               "no NVRTC is sought, since compiling is forbidden (EngineOptions::jit, "
               "KILN_JIT)"));
      return;
    }
    toolchain_.emplace(find_toolchain(options_.toolchain));
    if (*toolchain_) {
      toolchain_key_ = runtime::toolchain_key(**toolchain_);
    }
  });
  return *toolchain_;
}

const cache::ToolchainKey& CompilerSource::toolchain_key() {
  toolchain();
  return toolchain_key_;
}

const Result<std::unique_ptr<Compiler>>& CompilerSource::compiler() {
  std::call_once(started_once_, [this] { compiler_.emplace(start()); });
  return *compiler_;
}

Result<std::unique_ptr<Compiler>> CompilerSource::start() {
  const Result<Toolchain>& found = toolchain();
  if (!found) {
    return tl::unexpected(found.error());
  }
  Result<Nvrtc> nvrtc = Nvrtc::load(*found);
  if (!nvrtc) {
    return tl::unexpected(std::move(nvrtc.error()));
  }
  return std::make_unique<Nvrtc>(std::move(*nvrtc));
}

int CompilerSource::jobs() {
  return std::max(options_.workers, 1);
}

void CompilerSource::set_jobs(int) {}
void CompilerSource::cancel() {}

}  // namespace kiln::runtime
