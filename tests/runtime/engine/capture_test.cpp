// Launches on a stream that is being captured into a graph.
#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {
namespace {

/// A machine with the scale op planted, and a stream under capture.
class CaptureMachine : public ScaleMachine {
 public:
  explicit CaptureMachine(const Planted& planted = {}, int driver_version = 13000)
      : ScaleMachine(planted) {
    fake().set_version(driver_version);
    stream = fake().make_stream(context);
    capture(true);
  }
  void capture(bool on) { fake().set_capturing(stream, on); }
  bool whole() { return !fake().spoiled(stream); }
  EngineOptions refusing() {
    EngineOptions with = options();
    with.capture_misses = CaptureMisses::kError;
    return with;
  }

  CUstream stream = nullptr;
};

std::string refused(Engine& engine, const ScaleCall& call, CUstream stream) {
  return error_of(ErrorCode::kNotLoaded, [&] { call.launch(engine, stream); });
}

}  // namespace

TEST_CASE(
    "A kernel missing at capture is loaded in relaxed mode, launched, and named in a warning, and "
    "the capture goes on (field report 118)") {
  CaptureMachine machine;
  Engine engine = machine.engine();
  ScaleCall().launch(engine, machine.stream);
  CHECK(machine.fake().load_capture_modes() ==
        std::vector<CUstreamCaptureMode>{CU_STREAM_CAPTURE_MODE_RELAXED});
  CHECK(machine.fake().capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(machine.fake().launches().size() == 1);
  CHECK(machine.whole());
  CHECK(machine.log().count_with("scale ROWS=1 PDL=true sm_90 was loaded while its stream") == 1);
  ScaleCall(5).launch(engine, machine.stream);  // Another kernel.
  CHECK(machine.log().count_with("scale ROWS=2 PDL=true sm_90 was loaded while its stream") == 1);
  CHECK(machine.log().lines().size() == 2);
}

TEST_CASE(
    "Where the setting says so a kernel missing at capture is an error before any harm (field "
    "report 118)") {
  CaptureMachine machine;
  Engine engine = machine.engine(machine.refusing());
  const std::string message = refused(engine, ScaleCall(), machine.stream);
  CHECK(contains(message, "scale ROWS=1 PDL=true sm_90"));
  CHECK(contains(message, "KILN_CAPTURE_MISSES"));
  CHECK(contains(message, "Engine::warmup"));
  CHECK(machine.fake().count("cuLibraryLoadData") == 0);
  CHECK(machine.fake().launches().empty());
  CHECK(machine.whole());

  machine.capture(false);
  ScaleCall(3).launch(engine, machine.stream);
  machine.capture(true);
  ScaleCall(3).launch(engine, machine.stream);
  ScaleCall(2).launch(engine, machine.stream);  // Other shapes of the kernel that is loaded.
  CHECK(machine.fake().launches().size() == 3);
  refused(engine, ScaleCall(5), machine.stream);  // Shapes of another one.
  CHECK(machine.whole());
}

TEST_CASE("A driver before 12.3 is not asked to load during a capture (field report 122)") {
  CaptureMachine machine({.toolchain_major = 12}, 12020);
  Engine engine = machine.engine();
  const std::string message = refused(engine, ScaleCall(), machine.stream);
  CHECK(contains(message, "scale"));
  CHECK(contains(message, "12.2"));
  CHECK(machine.fake().count("cuLibraryLoadData") == 0);
  CHECK(machine.whole());
  machine.capture(false);
  ScaleCall().launch(engine, machine.stream);
  machine.capture(true);
  ScaleCall().launch(engine, machine.stream);
  CHECK(machine.fake().launches().size() == 2);
}

TEST_CASE("A kernel that may not be compiled stays an error of the policy during a capture") {
  CaptureMachine machine;
  std::filesystem::remove_all(machine.cache_root());
  EngineOptions options = machine.options();
  options.jit = JitPolicy::kForbid;
  Engine engine = machine.engine(options);
  error_of(ErrorCode::kCompileForbidden, [&] { ScaleCall().launch(engine, machine.stream); });
  CHECK(machine.fake().capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(machine.whole());
}

TEST_CASE("A load that fails during a capture puts the thread's mode back and spoils nothing") {
  CaptureMachine machine;
  Engine engine = machine.engine();
  machine.fake().fail("cuLibraryLoadData", CUDA_ERROR_OUT_OF_MEMORY, 1);
  error_of(ErrorCode::kDriverError, [&] { ScaleCall().launch(engine, machine.stream); });
  CHECK(machine.fake().capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(machine.whole());
  CHECK(machine.log().lines().empty());
}

TEST_CASE("Loading beside a capture, for another stream or ahead of launching, leaves it whole") {
  CaptureMachine machine;
  Engine engine = machine.engine(machine.refusing());
  ScaleCall().launch(engine);
  const ScaleCall other(5);
  engine.plan("scale", {other.x, other.bias, 1.0, other.out});
  CHECK(machine.fake().count("cuLibraryLoadData") == 2);
  CHECK(machine.whole());
  CHECK(machine.log().lines().empty());
}

TEST_CASE("Whether a stream is being captured is asked when a call is planned, not when launched") {
  CaptureMachine machine;
  Engine engine = machine.engine();
  ScaleCall().launch(engine, machine.stream);
  CHECK(machine.fake().count("cuStreamIsCapturing") == 1);
  machine.fake().forget_calls();
  ScaleCall().launch(engine, machine.stream);
  CHECK(machine.fake().calls() == std::vector<std::string>{"cuLaunchKernelEx"});
}

}  // namespace kiln::test
