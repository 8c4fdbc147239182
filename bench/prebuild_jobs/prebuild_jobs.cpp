// How much faster several compiles at a time make a prebuild: all variants of the built-in ops for
// some targets into an empty cache, with one job and with several, in turn, in one run.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kiln/engine.hpp>

#include "tests/support/temp_dir.hpp"

namespace kiln::bench {
namespace {

struct Settings {
  std::vector<int> jobs = {1, 2};
  std::vector<std::string> archs = {"sm_90a", "sm_100a", "sm_120a"};
  std::vector<std::string> ops;
  int rounds = 1;
};

double seconds_with(const Settings& settings, int jobs, std::size_t& kernels) {
  const test::TempDir dir;
  EngineOptions options;
  options.cache_root = dir.str("root");
  Engine engine(options);
  PrebuildRequest request;
  for (const std::string& arch : settings.archs) {
    request.targets.push_back(parse_target(arch));
  }
  request.ops = settings.ops;
  request.jobs = jobs;
  const PrebuildReport report = engine.prebuild(request);
  if (!report.ok()) {
    throw Error(ErrorCode::kInternal,
                report.failed.empty() ? "nothing was built" : report.failed.front().message);
  }
  kernels = report.compiled;
  return report.seconds;
}

int run(const Settings& settings) {
  std::map<int, std::vector<double>> seconds;
  std::size_t kernels = 0;
  for (int round = 0; round < settings.rounds; ++round) {
    for (const int jobs : settings.jobs) {
      seconds[jobs].push_back(seconds_with(settings, jobs, kernels));
    }
  }
  fmt::print("{} kernels for {}\n", kernels, fmt::join(settings.archs, ", "));
  const auto least = [&](int jobs) {
    return *std::min_element(seconds[jobs].begin(), seconds[jobs].end());
  };
  for (const int jobs : settings.jobs) {
    fmt::print("{:3} jobs: {:7.2f} s, {:5.2f} times as fast as with {}\n", jobs, least(jobs),
               least(settings.jobs.front()) / least(jobs), settings.jobs.front());
  }
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  CLI::App app("Prebuilds into empty caches with one job and with several.");
  kiln::bench::Settings settings;
  app.add_option("--jobs", settings.jobs, "numbers of jobs; the first is compared with")
      ->delimiter(',');
  app.add_option("--arch", settings.archs, "targets")->delimiter(',');
  app.add_option("--op", settings.ops, "only ops whose names match")->delimiter(',');
  app.add_option("--rounds", settings.rounds, "rounds, of which the quickest counts");
  CLI11_PARSE(app, argc, argv);
  try {
    return kiln::bench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
