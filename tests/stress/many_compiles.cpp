// An engine compiles many distinct kernels. Its resident memory must hardly grow, since NVRTC's
// does and lives in worker processes that are replaced. Prints the figures; the exit code is 0 when
// they are right and 77 when this machine cannot run it.

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <kiln/engine.hpp>

#include "runtime/nvrtc/toolchain.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tiny_op.hpp"

namespace kiln::stress {
namespace {

constexpr int kCannotRun = 77;
constexpr double kMaxGrowthMb = 20;

double resident_mb() {
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

int run(int kernels, bool in_process) {
  if (!runtime::find_toolchain(runtime::ToolchainInputs::from_environment(""))) {
    fmt::print("skipped: no NVRTC\n");
    return kCannotRun;
  }
  const test::TempDir dir;
  EngineOptions options;
  options.cache_root = dir.str("root");
  options.compile_in_process = in_process;
  Engine engine(options);
  engine.register_op(test::tiny_op(kernels));
  const std::vector<Variant> variants = engine.variants(engine.op("tiny"), parse_target("sm_90a"));
  const double before = resident_mb();
  for (const Variant& variant : variants) {
    engine.compile(variant);
  }
  const double growth = resident_mb() - before;
  const bool right = engine.counters().compiles == variants.size() && growth < kMaxGrowthMb;
  fmt::print("{} compiles{}: resident memory {:.1f} MB, then {:.1f} MB more: {}\n",
             engine.counters().compiles, in_process ? " in this process" : "", before, growth,
             right ? "right" : "WRONG");
  return right ? 0 : 1;
}

}  // namespace
}  // namespace kiln::stress

int main(int argc, char** argv) {
  CLI::App app("Compiles many kernels and watches the engine's memory.");
  int kernels = 500;
  bool in_process = false;
  app.add_option("--kernels", kernels, "distinct kernels")->check(CLI::Range(1, 100000));
  app.add_flag("--in-process", in_process, "NVRTC in this process, to compare with");
  CLI11_PARSE(app, argc, argv);
  return kiln::stress::run(kernels, in_process);
}
