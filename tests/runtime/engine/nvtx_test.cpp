// What a profiler is told. The tool is named before anything asks for one, so this program is one
// of its own.

#include "runtime/nvtx.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "runtime/trace.hpp"
#include "tests/fake_nvtx/fake_nvtx.hpp"
#include "tests/runtime/engine/compile_support.hpp"

namespace kiln::test {
namespace {

using runtime::ToolRange;
using runtime::Trace;
using runtime::TraceSpan;

[[maybe_unused]] const int tool_is_named = setenv("NVTX_INJECTION64_PATH", KILN_FAKE_NVTX, 1);

std::vector<std::string> all_events() {
  REQUIRE(ToolRange::tool_listens());
  void* const tool = dlopen(KILN_FAKE_NVTX, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(tool != nullptr);
  const auto events =
      reinterpret_cast<fake::NvtxEventsFunction>(dlsym(tool, fake::kNvtxEventsSymbol));
  REQUIRE(events != nullptr);
  std::vector<std::string> found;
  events(found);
  return found;
}

/// What the tool was told since this was made.
class Events {
 public:
  std::vector<std::string> list() const {
    auto all = all_events();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before_));
    return all;
  }
  std::ptrdiff_t count(const std::string& event) const {
    const auto events = list();
    return std::count(events.begin(), events.end(), event);
  }

 private:
  std::size_t before_ = all_events().size();
};

std::string pushed(const std::string& message, pid_t thread = gettid()) {
  return fmt::format("{} push kiln: {}", thread, message);
}
std::string popped(pid_t thread = gettid()) {
  return fmt::format("{} pop kiln", thread);
}

}  // namespace

TEST_CASE("A profiler sees a span of a trace that is off, in a domain named kiln") {
  const Events seen;
  LogLines log;
  Trace trace("", Logger(log.sink()));
  {
    const TraceSpan outer(trace, "scale ROWS=1 sm_90", "cache");
    const TraceSpan inner(trace, "scale ROWS=1 sm_90", "load");
  }
  CHECK(seen.list() == std::vector{pushed("look up scale ROWS=1 sm_90"),
                                   pushed("load scale ROWS=1 sm_90"), popped(), popped()});
  const auto all = all_events();
  CHECK(all.front() == "domain kiln");
  CHECK(std::count(all.begin(), all.end(), "domain kiln") == 1);
}

TEST_CASE("A message that is too long is cut") {
  const Events seen;
  { const ToolRange range("load", std::string(1000, 'x')); }
  REQUIRE(seen.list().size() == 2);
  CHECK(seen.list()[0] == pushed("load " + std::string(250, 'x')));
}

TEST_CASE("Each thread has ranges of its own") {
  const Events seen;
  pid_t other = 0;
  {
    const ToolRange here("load", "here");
    std::jthread([&] {
      other = gettid();
      const ToolRange there("load", "there");
    }).join();
  }
  CHECK(seen.list() ==
        std::vector{pushed("load here"), pushed("load there", other), popped(other), popped()});
}

TEST_CASE("A profiler sees the lookup and the load of a plan, and nothing of its launches") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const ScaleCall call;
  const Events seen;
  call.launch(engine);
  // The lookup names the best target; the entry that it finds is for another.
  CHECK(seen.list() == std::vector{pushed("look up scale ROWS=1 PDL=true sm_90a"),
                                   pushed("load scale ROWS=1 PDL=true sm_90"), popped(), popped()});
  const Events warm;
  call.launch(engine);
  CHECK(warm.list().empty());
}

TEST_CASE("A profiler sees a compile, on the thread that waits for it") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  Engine engine(machine.options());
  engine.register_op(scale_op());
  const auto variants = engine.variants(engine.op("scale"), parse_target("sm_90"));
  const Events seen;
  engine.compile(variants.front());
  CHECK(seen.count(pushed("compile " + to_string(variants.front()))) == 1);
  CHECK(seen.count(popped()) >= 1);
}

}  // namespace kiln::test
