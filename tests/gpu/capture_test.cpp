// Launches under stream capture: kernels that the process has not loaded yet, all capture modes,
// side streams, and the edges that the graphs get.
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/gpu/support/add_op.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/graph_parts.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

/// An engine of one test's own, over the tests' cache, which keeps its warnings.
class Fixture {
 public:
  explicit Fixture(CaptureMisses misses = CaptureMisses::kLoad) : engine(options(misses)) {}

  bool warned_of(const std::string& part) {
    const std::lock_guard lock(mutex_);
    for (const std::string& line : lines_) {
      if (line.find(part) != std::string::npos) {
        return true;
      }
    }
    return false;
  }

 private:
  EngineOptions options(CaptureMisses misses) {
    EngineOptions made;
    made.cache_root = Gpu::instance().cache.str();
    made.capture_misses = misses;
    made.log.user = this;
    made.log.callback = [](LogLevel, const char* message, void* user) {
      auto& self = *static_cast<Fixture*>(user);
      const std::lock_guard lock(self.mutex_);
      self.lines_.emplace_back(message);
    };
    return made;
  }
  std::mutex mutex_;
  std::vector<std::string> lines_;

 public:
  Engine engine;
};

bool relaxed_loads_are_possible() {
  return driver_version() >= 12030;
}

CUstreamCaptureStatus capture_status(const Stream& stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  KILN_CU(cuStreamIsCapturing, stream.get(), &status);
  return status;
}

/// Replays with two sets of inputs: x is filled, and out must be x + sum.
void check_replays(const Graph& graph, const AddBuffer& x, const AddBuffer& out, float sum) {
  const Stream& stream = Gpu::instance().stream;
  for (const float first : {1.0F, 1000.0F}) {
    x.fill(first);
    out.fill(-1);
    graph.launch(stream);
    stream.synchronize();
    REQUIRE(out.holds(first + sum));
  }
}

TEST_CASE("A kernel's first call may be captured, in every mode (field report 118)", "[capture]") {
  if (!relaxed_loads_are_possible()) {
    WARN("skipped: this driver cannot load during a capture");
    return;
  }
  struct Mode {
    CUstreamCaptureMode mode;
    int number;  // Of a kernel that no other test loads.
  };
  const Mode mode = GENERATE(Mode{CU_STREAM_CAPTURE_MODE_GLOBAL, 101},
                             Mode{CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 102},
                             Mode{CU_STREAM_CAPTURE_MODE_RELAXED, 103});
  CAPTURE(mode.mode);
  Gpu& gpu = Gpu::instance();
  Fixture fixture;
  fixture.engine.register_op(add_op(mode.number));
  const AddBuffer x;
  const AddBuffer out;
  const Graph graph(
      gpu.stream,
      [&] {
        add(fixture.engine, mode.number, x, out, gpu.stream.get());
        CHECK(capture_status(gpu.stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
      },
      mode.mode);
  CHECK(fixture.engine.counters().libraries_loaded == 1);
  CHECK(fixture.warned_of(add_name(mode.number)));
  check_replays(graph, x, out, static_cast<float>(mode.number));
}

TEST_CASE("A refused first call leaves the capture whole (field report 118)", "[capture]") {
  constexpr int kLoaded = 111;
  constexpr int kMissing = 112;
  Gpu& gpu = Gpu::instance();
  Fixture fixture(CaptureMisses::kError);
  fixture.engine.register_op(add_op(kLoaded));
  fixture.engine.register_op(add_op(kMissing));
  const AddBuffer x;
  const AddBuffer out;
  add(fixture.engine, kLoaded, x, out, gpu.stream.get());
  const Graph graph(gpu.stream, [&] {
    ErrorCode code{};
    try {
      add(fixture.engine, kMissing, x, out, gpu.stream.get());
    } catch (const Error& error) {
      code = error.code();
    }
    CHECK(code == ErrorCode::kNotLoaded);
    CHECK(capture_status(gpu.stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    add(fixture.engine, kLoaded, x, out, gpu.stream.get());
  });
  CHECK(fixture.engine.counters().libraries_loaded == 1);
  check_replays(graph, x, out, kLoaded);
}

TEST_CASE("Side streams are captured with the stream that they were forked from", "[capture]") {
  if (!relaxed_loads_are_possible()) {
    WARN("skipped: this driver cannot load during a capture");
    return;
  }
  constexpr int kOnMain = 121;
  constexpr int kOnSide = 122;
  constexpr int kLast = 123;
  Gpu& gpu = Gpu::instance();
  Fixture fixture;
  for (const int number : {kOnMain, kOnSide, kLast}) {
    fixture.engine.register_op(add_op(number));
  }
  const Stream side;
  const Event forked;
  const Event joined;
  const AddBuffer x;
  const AddBuffer main_out;
  const AddBuffer side_out;
  const AddBuffer out;
  const Graph graph(gpu.stream, [&] {
    forked.record(gpu.stream);
    forked.hold(side);
    add(fixture.engine, kOnSide, x, side_out, side.get());  // A miss, on a captured side stream.
    add(fixture.engine, kOnMain, x, main_out, gpu.stream.get());
    joined.record(side);
    joined.hold(gpu.stream);
    add(fixture.engine, kLast, side_out, out, gpu.stream.get());
  });
  check_replays(graph, x, out, kOnSide + kLast);
  CHECK(main_out.holds(1000.0F + kOnMain));
}

TEST_CASE(
    "An edge is programmatic when its consumer waits, and a full one when it does not (field "
    "report 139)",
    "[capture][pdl]") {
  Gpu& gpu = Gpu::instance();
  if (!has_programmatic_edges()) {
    WARN("skipped: needs programmatic edges (compute capability 9.0, driver 12.3)");
    return;
  }
  constexpr int kFirst = 131;
  constexpr int kWaiting = 132;
  constexpr int kNotWaiting = 133;
  Fixture fixture;
  fixture.engine.register_op(add_op(kFirst));
  fixture.engine.register_op(add_op(kWaiting));
  fixture.engine.register_op(add_op(kNotWaiting, false));
  const AddBuffer x;
  const AddBuffer a;
  const AddBuffer b;
  const AddBuffer out;
  for (const int number : {kFirst, kWaiting, kNotWaiting}) {
    add(fixture.engine, number, x, out, gpu.stream.get());
  }
  const Graph graph(gpu.stream, [&] {
    add(fixture.engine, kFirst, x, a, gpu.stream.get());
    add(fixture.engine, kWaiting, a, b, gpu.stream.get());
    add(fixture.engine, kNotWaiting, b, out, gpu.stream.get());
  });
  CHECK(programmatic_edges(graph) == std::vector{true, false});
  check_replays(graph, x, out, kFirst + kWaiting + kNotWaiting);
}

}  // namespace
}  // namespace kiln::gpu
