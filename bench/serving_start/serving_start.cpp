// What a start from the cache costs a serving process: an engine that warms up every variant of the
// built-in ops from a pack, and from a directory, beside the bare driver calls on the same bytes,
// one after the other; time and host memory. Each start is a process of its own, in turn, in
// alternating order. Files are in the page cache: what a disk would add is not counted.
//
// On a GPU, or with --fake on the tests' driver. The cache directory is KILN_CACHE_DIR, which must
// hold the ops for the device; without it they are compiled into a fresh one.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/serving_start/child.hpp"
#include "runtime/driver/handles.hpp"
#include "runtime/engine_impl.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::bench {
namespace {

constexpr std::array<const char*, 3> kCompared = {"bare", "pack", "directory"};

struct Settings {
  std::string fake;
  std::vector<std::string> ops;  ///< Empty: every built-in one.
  int rounds = 11;
};

void prebuild(Engine& engine, const std::vector<std::string>& ops) {
  PrebuildRequest request;
  request.targets = {engine.device_targets().at(0)};
  request.ops = ops;
  const PrebuildReport report = engine.prebuild(request);
  if (!report.ok()) {
    throw Error(ErrorCode::kInternal,
                report.failed.empty() ? "nothing was built" : report.failed.front().message);
  }
}

void fill(const Place& place, const Settings& settings, bool compiles) {
  EngineOptions options;
  options.driver = place.driver;
  options.cache_root = place.directory;
  Engine engine(options);
  const auto driver = value_or_throw(engine.impl().driver());
  const auto context = value_or_throw(runtime::PrimaryContext::retain(driver, 0));
  const std::vector<std::string> ops = settings.ops.empty() ? engine.op_names() : settings.ops;
  if (compiles) {
    prebuild(engine, ops);
  }
  place.fill(ops, every_variant(engine, ops));
}

using Starts = std::map<std::string, std::vector<Start>>;

Starts start_in_turn(const Place& place, int rounds) {
  Starts starts;
  auto order = kCompared;
  for (int round = 0; round < rounds; ++round) {
    for (const std::string what : order) {
      starts[what].push_back(start_in_child(what, place));
      const Start& bare = starts[order.front()].back();
      const Start& made = starts[what].back();
      if (made.libraries != bare.libraries || made.kernels != bare.kernels) {
        throw Error(
            ErrorCode::kInternal,
            fmt::format("{} loaded {} kernels of {} images, {} {} of {}", what, made.kernels,
                        made.libraries, order.front(), bare.kernels, bare.libraries));
      }
    }
    std::reverse(order.begin(), order.end());
  }
  return starts;
}

template <class Value>
Value median(const std::vector<Start>& starts, Value Start::*member) {
  std::vector<Value> values;
  for (const Start& start : starts) {
    values.push_back(start.*member);
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void print(const Starts& starts) {
  const std::vector<Start>& bare = starts.at(kCompared[0]);
  fmt::print("{} kernels of {} images, the median of {} processes each\n", bare[0].kernels,
             bare[0].libraries, bare.size());
  const double base_seconds = median(bare, &Start::seconds);
  const auto base_kb = static_cast<double>(median(bare, &Start::resident_kb));
  for (const char* const what : kCompared) {
    const double seconds = median(starts.at(what), &Start::seconds);
    const auto kb = static_cast<double>(median(starts.at(what), &Start::resident_kb));
    fmt::print("{:10} {:8.2f} ms, ratio {:6.3f}; {:8.1f} MB resident, {:+6.1f} MB\n", what,
               seconds * 1e3, seconds / base_seconds, kb / 1e3, (kb - base_kb) / 1e3);
  }
}

int run(const Settings& settings) {
  const test::TempDir dir;
  const char* const cache = std::getenv("KILN_CACHE_DIR");
  const Place place{dir.str(), settings.fake, cache != nullptr ? cache : dir.str("cache")};
  fill(place, settings, cache == nullptr);
  print(start_in_turn(place, settings.rounds));
  return 0;
}

int start(int argc, char** argv) {
  if (argc == 6 && std::string_view(argv[1]) == "child") {
    return child_main(argv[2], {argv[3], argv[4], argv[5]});
  }
  CLI::App app("Starts engines from a cache, and compares with the bare driver calls.");
  Settings settings;
  app.add_option("--fake", settings.fake, "path of the tests' driver");
  app.add_option("--op", settings.ops, "only these ops")->delimiter(',');
  app.add_option("--rounds", settings.rounds, "starts of each kind")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return run(settings);
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  try {
    return kiln::bench::start(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
