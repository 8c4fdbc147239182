// What prebuild adds to NVRTC: the time per variant of `prebuild --jobs 1` into an empty cache, and
// that of bare NVRTC calls on the same sources and options, in one run and by turns.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <dlfcn.h>
#include <fmt/format.h>

#include <kiln/engine.hpp>

#include "base/result.hpp"
#include "runtime/nvrtc/compiler.hpp"
#include "runtime/nvrtc/library.hpp"
#include "runtime/nvrtc/source_key.hpp"
#include "runtime/nvrtc/toolchain.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The calls without which there is no cubin to launch, and no others.
void compile_bare(const runtime::NvrtcApi& api, const registry::CompileUnit& unit) {
  const auto require = [&](nvrtcResult result, const char* call) {
    if (result != NVRTC_SUCCESS) {
      throw Error(ErrorCode::kCompileFailed,
                  fmt::format("{}: {} gave {}", unit.label, call, api.error_string(result)));
    }
  };
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const SourceFile& header : unit.headers) {
    names.push_back(header.name.c_str());
    texts.push_back(header.text.c_str());
  }
  const std::vector<std::string> options = runtime::compile_options(unit);
  std::vector<const char*> arguments;
  for (const std::string& option : options) {
    arguments.push_back(option.c_str());
  }
  nvrtcProgram program = nullptr;
  require(api.create_program(&program, unit.main.text.c_str(), unit.main.name.c_str(),
                             static_cast<int>(names.size()), texts.data(), names.data()),
          "nvrtcCreateProgram");
  require(api.add_name_expression(program, unit.name_expression.c_str()), "nvrtcAddNameExpression");
  require(api.compile_program(program, static_cast<int>(arguments.size()), arguments.data()),
          "nvrtcCompileProgram");
  const char* symbol = nullptr;
  require(api.lowered_name(program, unit.name_expression.c_str(), &symbol), "nvrtcGetLoweredName");
  std::size_t size = 0;
  require(api.cubin_size(program, &size), "nvrtcGetCUBINSize");
  std::string cubin(size, '\0');
  require(api.cubin(program, cubin.data()), "nvrtcGetCUBIN");
  require(api.destroy_program(&program), "nvrtcDestroyProgram");
}

// A cache root for one prebuild, removed with everything in it.
class EmptyRoot {
 public:
  EmptyRoot() {
    std::string pattern = (fs::temp_directory_path() / "kiln-bench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw Error(ErrorCode::kIo, "cannot make a directory " + pattern);
    }
    path_ = pattern;
  }
  ~EmptyRoot() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  EmptyRoot(const EmptyRoot&) = delete;
  EmptyRoot& operator=(const EmptyRoot&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

double prebuild_seconds(const std::string& op, const Target& target, std::size_t expected) {
  const EmptyRoot root;
  EngineOptions options;
  options.cache_root = root.path();
  Engine engine(options);
  PrebuildRequest request;
  request.targets = {target};
  request.ops = {op};
  request.jobs = 1;
  const PrebuildReport report = engine.prebuild(request);
  if (!report.ok() || report.compiled != expected) {
    throw Error(ErrorCode::kCompileFailed,
                report.failed.empty()
                    ? fmt::format("prebuild compiled {} of {} kernels", report.compiled, expected)
                    : report.failed.front().message);
  }
  return report.seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One op's line. The two take turns, and go first by turns, so that a slow spell of the machine
// falls on both.
void measure(const runtime::NvrtcApi& api, Engine& engine, const std::string& name,
             const Target& target, int rounds) {
  std::vector<registry::CompileUnit> units;
  for (const Variant& variant : engine.variants(engine.op(name), target)) {
    units.push_back(value_or_throw(registry::compile_unit(variant)));
  }
  const auto bare_seconds = [&] {
    const Clock::time_point start = Clock::now();
    for (const registry::CompileUnit& unit : units) {
      compile_bare(api, unit);
    }
    return seconds_since(start);
  };
  std::vector<double> bare;
  std::vector<double> prebuild;
  std::vector<double> ratios;
  compile_bare(api, units.front());  // The first compile of a process pays for NVRTC's own start.
  for (int round = 0; round < rounds; ++round) {
    if (round % 2 == 0) {
      bare.push_back(bare_seconds());
      prebuild.push_back(prebuild_seconds(name, target, units.size()));
    } else {
      prebuild.push_back(prebuild_seconds(name, target, units.size()));
      bare.push_back(bare_seconds());
    }
    ratios.push_back(prebuild.back() / bare.back());
  }
  const double per_variant = 1e3 / static_cast<double>(units.size());
  fmt::print("{:<24} {:<8} {:>8} {:>12.2f} {:>12.2f} {:>8.3f}\n", name, to_string(target),
             units.size(), median(bare) * per_variant, median(prebuild) * per_variant,
             median(ratios));
}

int run(int argc, char** argv) {
  CLI::App app("Time per variant of prebuild with one job, against bare NVRTC calls");
  std::string target_name = "sm_90a";
  int rounds = 5;
  app.add_option("--arch", target_name, "The target to compile for")->capture_default_str();
  app.add_option("--rounds", rounds, "Turns of each; the median is shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);

  const Target target = parse_target(target_name);
  const runtime::Toolchain toolchain =
      value_or_throw(find_toolchain(runtime::ToolchainInputs::from_environment("")));
  // Loads the set as the engine does; the handle for the bare calls is the same library's.
  value_or_throw(runtime::Nvrtc::load(toolchain));
  void* const handle = ::dlopen(toolchain.nvrtc_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const runtime::NvrtcApi api = value_or_throw(runtime::NvrtcApi::resolve(handle));

  fmt::print("NVRTC {} ({}), median of {} rounds\n", toolchain.version(), toolchain.nvrtc_path,
             rounds);
  fmt::print("{:<24} {:<8} {:>8} {:>12} {:>12} {:>8}\n", "op", "target", "variants", "bare ms",
             "prebuild ms", "ratio");
  Engine engine;
  for (const std::string& name : engine.op_names()) {
    measure(api, engine, name, target, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  try {
    return kiln::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "compile_overhead: {}\n", error.what());
    return 1;
  }
}
