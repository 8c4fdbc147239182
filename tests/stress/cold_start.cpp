// Many processes start cold on one empty cache and ask for the same kernels, round after round,
// with a real NVRTC. Every process must get every kernel, and each kernel must be compiled once per
// round. --no-locks shows that locks only save work, --namespaces that equal pids and host names do
// no harm (field reports 1, 4, 8 and 16). Prints the figures; the exit code is 0 when they are
// right and 77 when this machine cannot run it.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cache/store.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/runtime/engine/tiny_kernels.hpp"
#include "tests/stress/workers.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::stress {
namespace {

constexpr int kCannotRun = 77;

struct Settings {
  int processes = 8;
  int kernels = 50;
  int rounds = 100;
  bool no_locks = false;
  bool namespaces = false;
  bool in_process = false;
};

// The round's sums.
struct Round {
  std::uint64_t compiles = 0;
  std::uint64_t failures = 0;
};

// One process of an engine: half of them go through the kernels in the same order, as ranks do; the
// others each start elsewhere.
Report work(const Settings& settings, const std::string& root, int number) {
  Report report;
  const test::TinyKernels kernels(settings.kernels);
  cache::test::LogLines log;
  auto disk = std::make_shared<cache::test::FaultyFileSystem>();
  if (settings.no_locks) {
    disk->ignore_locks();
  }
  cache::Store store(cache::test::options_at(root, log, disk));
  runtime::Trace trace("", log.logger());
  runtime::ProviderOptions options;
  options.compiler.toolchain = runtime::ToolchainInputs::from_environment("");
  options.compiler.in_process = settings.in_process;
  options.compiler.workers = 1;
  runtime::KernelProvider provider(store, options, log.logger(), trace);
  const int first = number % 2 == 0 ? 0 : number * 7;
  for (int i = 0; i < settings.kernels; ++i) {
    const auto& wanted = kernels[static_cast<std::size_t>((first + i) % settings.kernels)];
    const auto obtained = provider.obtain({&wanted, 1});
    const bool works =
        obtained && obtained->stored && obtained->entry->source.material == wanted.source.material;
    report.failures += works ? 0U : 1U;
  }
  report.compiles = provider.compiles();
  report.failures += log.lines().size();
  return report;
}

// What the round left on the disk: every kernel once, whole, and nothing but lock files beside
// them.
std::uint64_t problems_left(const Settings& settings, const std::string& root) {
  cache::test::LogLines log;
  cache::Store store(cache::test::options_at(root, log));
  std::uint64_t problems = store.verify().size();
  problems += store.list().size() == static_cast<std::size_t>(settings.kernels) ? 0U : 1U;
  for (const std::string& path : cache::test::files_below(root + "/v1")) {
    const bool known = path.ends_with(".cubin") || path.starts_with(root + "/v1/locks/");
    problems += known ? 0U : 1U;
  }
  return problems;
}

std::optional<Round> run_round(const Settings& settings) {
  const test::TempDir dir;
  const std::string root = dir.str("root");
  const auto reports = run_workers(settings.processes,
                                   settings.namespaces ? Isolation::kNamespaces : Isolation::kNone,
                                   [&](int number) { return work(settings, root, number); });
  if (!reports) {
    return std::nullopt;
  }
  Round round;
  for (const Report& report : *reports) {
    round.compiles += report.compiles;
    round.failures += report.failures;
  }
  round.failures += problems_left(settings, root);
  return round;
}

int run(const Settings& settings) {
  const auto found = runtime::find_toolchain(runtime::ToolchainInputs::from_environment(""));
  if (!found) {
    fmt::print("skipped: {}\n", found.error().message);
    return kCannotRun;
  }
  std::vector<std::uint64_t> compiles;
  std::uint64_t failures = 0;
  for (int i = 0; i < settings.rounds; ++i) {
    const auto round = run_round(settings);
    if (!round) {
      fmt::print("skipped: this user may not make pid, mount and UTS namespaces\n");
      return kCannotRun;
    }
    compiles.push_back(round->compiles);
    failures += round->failures;
  }
  const auto [least, most] = std::minmax_element(compiles.begin(), compiles.end());
  const auto kernels = static_cast<std::uint64_t>(settings.kernels);
  fmt::print("cold start: {} processes, {} kernels, {} rounds{}{}\n", settings.processes,
             settings.kernels, settings.rounds, settings.no_locks ? ", locks that do nothing" : "",
             settings.namespaces ? ", own pid, mount and UTS namespaces" : "");
  fmt::print("failures: {}\ncompiles per round: {} to {}, of {} kernels\n", failures, *least, *most,
             kernels);
  // Without locks work may be done twice, but never wrongly.
  const bool counted = *least >= kernels && (settings.no_locks || *most == kernels);
  return failures == 0 && counted ? 0 : 1;
}

}  // namespace
}  // namespace kiln::stress

int main(int argc, char** argv) {
  kiln::stress::Settings settings;
  CLI::App app{"Processes that start cold on one cache"};
  app.add_option("--processes", settings.processes)->check(CLI::Range(1, 1000));
  app.add_option("--kernels", settings.kernels)->check(CLI::Range(2, 10000));
  app.add_option("--rounds", settings.rounds)->check(CLI::Range(1, 1000000));
  app.add_flag("--no-locks", settings.no_locks, "every lock is granted to everyone");
  app.add_flag("--namespaces", settings.namespaces, "each process in namespaces of its own");
  app.add_flag("--in-process", settings.in_process, "NVRTC in the processes themselves");
  CLI11_PARSE(app, argc, argv);
  return kiln::stress::run(settings);
}
