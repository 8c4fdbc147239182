// What an inference engine does in a serving image, and no more: takes every setting from the
// environment, warms up every variant of every built-in op for the device, and launches every op.
// The driver is the fake one, which must lie on the loader's path as libcuda.so.1.
//
//   kiln_serve_check        prints what it counted; exits 0 when all was loaded and launched, and
//                           nothing compiled

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

#include <kiln/engine.hpp>

#include "runtime/driver/handles.hpp"
#include "runtime/engine_impl.hpp"
#include "tests/fake_driver/fake_driver.hpp"
#include "tools/device_call.hpp"
#include "tools/op_case.hpp"

namespace kiln::test {
namespace {

constexpr const char* kDriver = "libcuda.so.1";
constexpr std::int64_t kRows = 4;

void say(const std::string& line) {
  std::fprintf(stderr, "%s\n", line.c_str());
}

// The one that the engine opens by the same name; it stays loaded.
fake::Control* fake_driver() {
  void* const library = ::dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    say(fmt::format("there is no {} on the loader's path", kDriver));
    return nullptr;
  }
  const auto control =
      reinterpret_cast<fake::ControlFunction>(::dlsym(library, fake::kControlSymbol));
  if (control == nullptr) {
    say(fmt::format("the {} on the loader's path is not the fake driver", kDriver));
    return nullptr;
  }
  return control();
}

// Of the best target, which is what a prebuild for this device makes.
std::vector<Variant> every_variant(Engine& engine) {
  const Target target = engine.device_targets().at(0);
  std::vector<Variant> all;
  for (const std::string& name : engine.op_names()) {
    const std::vector<Variant> variants = engine.variants(engine.op(name), target);
    all.insert(all.end(), variants.begin(), variants.end());
  }
  return all;
}

bool warm_up(Engine& engine) {
  WarmupRequest request;
  request.variants = every_variant(engine);
  const WarmupReport report = engine.warmup(request);
  for (const WarmupReport::Failed& failed : report.failed) {
    say(failed.message);
  }
  std::printf("prepared %zu of %zu\n", report.prepared, request.variants.size());
  return report.ok() && !request.variants.empty();
}

// How many kernels the driver was given.
std::size_t launch_every_op(Engine& engine, fake::Control& control) {
  const auto driver = value_or_throw(engine.impl().driver());
  runtime::Stream stream = value_or_throw(runtime::Stream::create(driver));
  for (const tools::OpCase& op_case : tools::builtin_cases()) {
    const registry::BoundOp& op = Engine::Impl::bound(engine.op(op_case.op));
    tools::CallRequest request;
    request.dims[op_case.rows] = kRows;
    const tools::HostCall call(op, op_case, request);
    const std::size_t before = control.count("cuLaunchKernelEx");
    tools::DeviceCall(engine, driver, call).launch(stream, true);
    if (control.count("cuLaunchKernelEx") == before) {
      throw Error(ErrorCode::kInternal, op_case.op + " was not launched");
    }
  }
  return control.launches().size();
}

int serve(fake::Control& control) {
  EngineOptions options;
  options.log.callback = [](LogLevel, const char* line, void*) { say(line); };
  Engine engine(options);
  control.set_current(control.make_context(0));
  if (!warm_up(engine)) {
    return 1;
  }
  const std::uint64_t loaded = engine.counters().libraries_loaded;
  const std::size_t launches = launch_every_op(engine, control);
  const Counters counters = engine.counters();
  std::printf("compiles %ju, cache hits %ju, loaded %ju, loaded after the warm-up %ju\n",
              std::uintmax_t{counters.compiles}, std::uintmax_t{counters.cache_hits},
              std::uintmax_t{counters.libraries_loaded},
              std::uintmax_t{counters.libraries_loaded - loaded});
  std::printf("launched %zu kernels of %zu ops\n", launches, engine.op_names().size());
  return counters.compiles == 0 && counters.libraries_loaded == loaded && launches > 0 ? 0 : 1;
}

}  // namespace
}  // namespace kiln::test

int main() {
  try {
    kiln::fake::Control* const control = kiln::test::fake_driver();
    return control != nullptr ? kiln::test::serve(*control) : 1;
  } catch (const std::exception& error) {
    kiln::test::say(error.what());
    return 1;
  }
}
