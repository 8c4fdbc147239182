// How long loaded kernels live: beyond their engine, until they are unloaded, and at process exit.
#include <memory>
#include <string>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/support/add_op.hpp"
#include "tests/gpu/support/exit_child.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

std::unique_ptr<Engine> make_engine(int number) {
  EngineOptions options;
  options.cache_root = Gpu::instance().cache.str();
  auto engine = std::make_unique<Engine>(options);
  engine->register_op(add_op(number));
  return engine;
}

bool replays(const Graph& graph, const AddBuffer& x, const AddBuffer& out, int number) {
  const Stream& stream = Gpu::instance().stream;
  bool right = true;
  for (const float first : {3.0F, 500.0F}) {
    x.fill(first);
    out.fill(-1);
    graph.launch(stream);
    stream.synchronize();
    right = right && out.holds(first + static_cast<float>(number));
  }
  return right;
}

TEST_CASE("A graph outlives the engine that it was captured with (field report 124)",
          "[lifetime]") {
  constexpr int kNumber = 201;
  const Stream& stream = Gpu::instance().stream;
  const AddBuffer x;
  const AddBuffer out;
  std::unique_ptr<Engine> engine = make_engine(kNumber);
  add(*engine, kNumber, x, out, stream.get());
  const Graph graph(stream, [&] { add(*engine, kNumber, x, out, stream.get()); });
  engine.reset();
  CHECK(replays(graph, x, out, kNumber));
  for (int i = 0; i < 20; ++i) {  // Others come and go.
    add(*make_engine(kNumber), kNumber, x, out, stream.get());
  }
  CHECK(replays(graph, x, out, kNumber));
}

TEST_CASE("unload() is refused during a capture, and a kernel can be loaded again after it",
          "[lifetime]") {
  constexpr int kNumber = 202;
  const Stream& stream = Gpu::instance().stream;
  const AddBuffer x;
  const AddBuffer out;
  const std::unique_ptr<Engine> engine = make_engine(kNumber);
  add(*engine, kNumber, x, out, stream.get());
  {
    const Graph graph(stream, [&] {
      add(*engine, kNumber, x, out, stream.get());
      ErrorCode code{};
      try {
        engine->unload({stream.get()});
      } catch (const Error& error) {
        code = error.code();
      }
      CHECK(code == ErrorCode::kInvalidArgument);
    });
    CHECK(replays(graph, x, out, kNumber));
  }
  stream.synchronize();
  CHECK(engine->unload({stream.get()}) == 1);
  x.fill(7);
  out.fill(-1);
  add(*engine, kNumber, x, out, stream.get());
  stream.synchronize();
  CHECK(out.holds(7.0F + kNumber));
  CHECK(engine->counters().libraries_loaded == 2);
}

pid_t start_child() {
  const std::string cache = Gpu::instance().cache.str();
  std::string program = "/proc/self/exe";
  std::string flag = kExitChildFlag;
  std::string folder = cache;
  char* const arguments[] = {program.data(), flag.data(), folder.data(), nullptr};
  pid_t child = -1;
  REQUIRE(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) == 0);
  return child;
}

TEST_CASE("A process that ends by an exception with a graph alive exits cleanly (field report 127)",
          "[lifetime]") {
  constexpr int kRuns = 100;
  constexpr int kAtOnce = 10;
  {
    // So that the children find their kernel in the cache.
    const AddBuffer x;
    const AddBuffer out;
    add(*make_engine(kExitChildNumber), kExitChildNumber, x, out, Gpu::instance().stream.get());
    Gpu::instance().stream.synchronize();
  }
  for (int run = 0; run < kRuns; run += kAtOnce) {
    std::vector<pid_t> children;
    for (int i = 0; i < kAtOnce; ++i) {
      children.push_back(start_child());
    }
    for (const pid_t child : children) {
      int status = 0;
      REQUIRE(waitpid(child, &status, 0) == child);
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == kExitChildCode);
    }
  }
}

}  // namespace
}  // namespace kiln::gpu
