// Every bad input that a call, a cache or a machine can bring: each a clear error, or a documented
// degradation.

#include <fstream>

#include <unistd.h>

#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {
namespace {

std::string refused(Engine& engine, const ScaleCall& call) {
  return error_of(ErrorCode::kInvalidArgument, [&] { call.launch(engine); });
}

// The one entry file under a cache root.
std::filesystem::path only_entry(const std::string& root) {
  std::filesystem::path found;
  for (const auto& file : std::filesystem::recursive_directory_iterator(root)) {
    if (file.path().extension() == ".cubin") {
      REQUIRE(found.empty());
      found = file.path();
    }
  }
  REQUIRE(!found.empty());
  return found;
}

}  // namespace

TEST_CASE("A call outside the contract is refused before the driver is even looked for") {
  ScaleMachine machine;
  EngineOptions options = machine.options();
  options.driver = machine.dir().str("absent.so");
  Engine engine = machine.engine(options);
  ScaleCall call;
  SECTION("wrong dtype") {
    call.x = Tensor(address(0x10000), DType::kBF16, {3, 64});
    const std::string message = refused(engine, call);
    CHECK(contains(message, "scale"));
    CHECK(contains(message, "\"x\""));
    CHECK(contains(message, "f32"));
    CHECK(contains(message, "bf16"));
  }
  SECTION("wrong shape") {
    call.bias = Tensor(address(0x20000), DType::kF32, {63});
    const std::string message = refused(engine, call);
    CHECK(contains(message, "\"bias\""));
    CHECK(contains(message, "64"));
    CHECK(contains(message, "63"));
  }
  SECTION("wrong stride") {
    call.out = Tensor(address(0x30000), DType::kF32, {3, 64}, {128, 1});
    const std::string message = refused(engine, call);
    CHECK(contains(message, "\"out\""));
    CHECK(contains(message, "128"));
  }
  SECTION("wrong alignment") {
    call.x = Tensor(address(0x10004), DType::kF32, {3, 64});
    const std::string message = refused(engine, call);
    CHECK(contains(message, "\"x\""));
    CHECK(contains(message, "16"));
  }
  SECTION("tensors on different devices") {
    call.bias = Tensor(address(0x20000), DType::kF32, {64}, 1);
    const std::string message = refused(engine, call);
    CHECK(contains(message, "\"bias\""));
    CHECK(contains(message, "cuda:1"));
  }
  SECTION("null pointer") {
    call.out = Tensor(nullptr, DType::kF32, {3, 64});
    const std::string message = refused(engine, call);
    CHECK(contains(message, "\"out\""));
    CHECK(contains(message, "null"));
  }
  SECTION("overlap") {
    call.x = Tensor(address(0x30000), DType::kF32, {3, 64});
    call.out = Tensor(address(0x30040), DType::kF32, {3, 64});
    CHECK(contains(refused(engine, call), "\"out\""));
  }
  SECTION("too few arguments") {
    CHECK(contains(
        error_of(ErrorCode::kInvalidArgument, [&] { engine.launch("scale", {call.x}, nullptr); }),
        "4"));
  }
}

TEST_CASE("Strided views that overlap are found in the checking mode only") {
  ScaleMachine machine;
  machine.fake().add_memory(0x10000, 0x100000, 0);
  ScaleCall call(4, 64);
  call.x = Tensor(address(0x10000), DType::kF32, {4, 64}, {128, 1});
  SECTION("two views of the same rows") {
    call.bias = Tensor(address(0x20000), DType::kF32, {64});
    call.out = Tensor(address(0x10200), DType::kF32, {4, 64});
    Engine relaxed = machine.engine();
    call.launch(relaxed);
    EngineOptions options = machine.options();
    options.check = true;
    Engine checking = machine.engine(options);
    CHECK(contains(refused(checking, call), "\"out\""));
  }
  SECTION("views that interleave without touching") {
    call.out = Tensor(address(0x40000), DType::kF32, {4, 64});
    EngineOptions options = machine.options();
    options.check = true;
    Engine checking = machine.engine(options);
    call.launch(checking);
    CHECK(machine.fake().launches().size() == 1);
  }
}

TEST_CASE("The checking mode asks the driver where each pointer is, at cold and warm launches") {
  ScaleMachine machine;
  machine.fake().set_devices({{}, {}});
  machine.fake().add_memory(0x10000, 0x10000, 0);
  machine.fake().add_memory(0x20000, 0x10000, 0);
  machine.fake().add_memory(0x30000000, 0x300, 0);
  machine.fake().add_memory(0x50000, 0x10000, 1);
  machine.fake().add_memory(0x70000, 0x10000, -1);
  EngineOptions options = machine.options();
  options.check = true;
  Engine engine = machine.engine(options);
  ScaleCall call;
  if (GENERATE(false, true)) {
    call.launch(engine);
  }
  const ScaleCall good = call;
  call.x = Tensor(address(0x50000), DType::kF32, {3, 64});
  CHECK(contains(refused(engine, call), "argument x: declared on CUDA device 0"));
  CHECK(contains(refused(engine, call), "device 1"));
  call.x = Tensor(address(0x70000), DType::kF32, {3, 64});
  CHECK(contains(refused(engine, call), "host memory"));
  call.x = Tensor(address(0x90000), DType::kF32, {3, 64});
  CHECK(contains(refused(engine, call), "no memory that the CUDA driver knows"));
  call = good;
  call.out = Tensor(address(0x30000010), DType::kF32, {3, 64});
  CHECK(contains(refused(engine, call), "last byte (0x3000030f)"));
  good.launch(engine);
}

TEST_CASE("The checking mode lets a tensor lie in host memory where the argument allows it") {
  Machine machine;
  machine.enter();
  machine.fake().add_memory(0x10000, 0x10000, 0);
  machine.fake().add_memory(0x20000, 0x10000, -1);
  machine.fake().add_memory(0x30000000, 0x300, 0);
  Op op = scale_op("pinned");
  op.args[1].host_memory = true;
  machine.fake().describe_kernel("scale_symbol", scale_param_bytes());
  EngineOptions options = machine.options();
  options.check = true;
  Engine engine(options);
  engine.register_op(op);
  plant(engine, "pinned", "sm_90", machine.cache_root(), {});
  ScaleCall call;
  call.launch(engine, nullptr, {}, "pinned");
  call.bias = Tensor(address(0x90000), DType::kF32, {64});
  CHECK_THROWS_WITH(call.launch(engine, nullptr, {}, "pinned"),
                    Catch::Matchers::Contains("no memory that the CUDA driver knows"));
}

TEST_CASE("An unknown op is an error that names near matches") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const std::string message = error_of(ErrorCode::kUnknownOp, [&] { engine.op("scal"); });
  CHECK(contains(message, "scal"));
  CHECK(contains(message, "\"scale\""));
  error_of(ErrorCode::kUnknownOp, [&] { engine.launch("nothing like it", {}, nullptr); });
}

TEST_CASE("A second op of the same name is refused") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  CHECK(contains(error_of(ErrorCode::kDuplicateOp, [&] { engine.register_op(scale_op()); }),
                 "scale"));
}

TEST_CASE("An unknown or unserved architecture is an error") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  error_of(ErrorCode::kUnsupportedTarget, [] { parse_target("sm_9000"); });
  const std::string message = error_of(ErrorCode::kUnsupportedTarget, [&] {
    engine.variants(engine.op("scale"), parse_target("sm_80"));
  });
  CHECK(contains(message, "scale"));
  CHECK(contains(message, "9.0"));
}

TEST_CASE("A device that the op does not serve is an error that says what it needs") {
  ScaleMachine machine;
  machine.fake().set_devices({{.name = "Fake A100", .major = 8, .minor = 0}});
  Engine engine = machine.engine();
  const std::string message =
      error_of(ErrorCode::kUnsupportedTarget, [&] { ScaleCall().launch(engine); });
  CHECK(contains(message, "Fake A100"));
  CHECK(contains(message, "8.0"));
  CHECK(contains(message, "needs 9.0"));
}

TEST_CASE("A missing driver is an error that says what was searched, at the launch alone") {
  ScaleMachine machine;
  EngineOptions options = machine.options();
  options.driver = machine.dir().str("absent.so");
  Engine engine = machine.engine(options);
  const std::string message =
      error_of(ErrorCode::kDriverUnavailable, [&] { ScaleCall().launch(engine); });
  CHECK(contains(message, options.driver));
  CHECK(contains(message, "EngineOptions::driver"));
  const Variant variant = engine.variants(engine.op("scale"), parse_target("sm_90")).front();
  CHECK(engine.compile(variant).from_cache);  // Neither driver nor NVRTC.
}

TEST_CASE("A driver without devices, or too old, is an error of its own") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  SECTION("no device") {
    machine.fake().set_devices({});
    const std::string message =
        error_of(ErrorCode::kDriverUnavailable, [&] { ScaleCall().launch(engine); });
    CHECK(contains(message, "CUDA_ERROR_NO_DEVICE"));
    CHECK(contains(message, "libcuda.so.1"));
  }
  SECTION("too old") {
    machine.fake().set_version(11080);
    const std::string message =
        error_of(ErrorCode::kDriverUnavailable, [&] { ScaleCall().launch(engine); });
    CHECK(contains(message, "11.8"));
    CHECK(contains(message, "12.0"));
  }
}

TEST_CASE("Without NVRTC a cached kernel launches, and a missing one is an error that says why") {
  ScaleMachine machine;
  {
    Engine engine = machine.engine();
    ScaleCall().launch(engine);
    CHECK(engine.counters().compiles == 0);
  }
  std::filesystem::remove_all(machine.cache_root());
  Engine engine = machine.engine();
  const std::string message =
      error_of(ErrorCode::kCompilerUnavailable, [&] { ScaleCall(64).launch(engine); });
  CHECK(contains(message, "scale ROWS=2 PDL=true sm_90"));
  CHECK(contains(message, machine.options().nvrtc));
  CHECK(contains(message, machine.cache_root()));
}

TEST_CASE(
    "A truncated cache file is a miss with one warning, and never reaches the driver (field report "
    "3)") {
  Machine machine;
  machine.enter();
  Engine engine(machine.options());
  engine.register_op(scale_op());
  const Variant variant = engine.variants(engine.op("scale"), parse_target("sm_90"))[1];
  REQUIRE(contains(to_string(variant), "ROWS=1 PDL=true"));
  publish(machine.cache_root(), planted_entry(variant));
  const std::filesystem::path path = only_entry(machine.cache_root());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  error_of(ErrorCode::kCompilerUnavailable, [&] { ScaleCall(1).launch(engine); });
  error_of(ErrorCode::kCompilerUnavailable, [&] { ScaleCall(2).launch(engine); });
  CHECK(machine.fake().count("cuLibraryLoadData") == 0);
  CHECK(machine.log().count_with(path.filename().string()) == 1);
  CHECK(engine.counters().rejected_entries == 1);
}

TEST_CASE("No current context, or one of another device, is an error that says which is needed") {
  ScaleMachine machine;
  machine.fake().set_devices({{}, {}});
  Engine engine = machine.engine();
  machine.fake().set_current(nullptr);
  CHECK(contains(refused(engine, ScaleCall()), "no CUDA context is current"));
  machine.enter(1);
  const std::string message = refused(engine, ScaleCall());
  CHECK(contains(message, "on CUDA device 0"));
  CHECK(contains(message, "context is of device 1"));
}

TEST_CASE("A device that is not there is an error that says how many there are") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  CHECK(contains(refused(engine, ScaleCall(3, 64, 7)), "no CUDA device 7"));
  CHECK(contains(refused(engine, ScaleCall(3, 64, 7)), "1 device"));
}

TEST_CASE("Shapes that were planned in one context are not ready in another") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const ScaleCall call;
  const std::vector<Arg> args{call.x, call.bias, call.factor, call.out};
  const Plan plan = engine.plan(engine.op("scale"), args);
  machine.enter();
  const std::string message = error_of(ErrorCode::kInvalidArgument, [&] {
    static_cast<void>(engine.plan(engine.op("scale"), args));
  });
  CHECK(contains(message, "context"));
  WarmupRequest request;
  request.calls = {{engine.op("scale"), args}};
  const WarmupReport report = engine.warmup(request);
  CHECK(report.prepared == 0);
  REQUIRE(report.failed.size() == 1);
  CHECK(contains(report.failed[0].message, "context"));
}

TEST_CASE("A stream of another context is refused by the driver, and the error says so") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  CUstream stream = machine.fake().make_stream(machine.fake().make_context(0));
  const std::string message =
      error_of(ErrorCode::kDriverError, [&] { ScaleCall().launch(engine, stream); });
  CHECK(contains(message, "CUDA_ERROR_INVALID_HANDLE"));
  CHECK(contains(message, "context"));
}

}  // namespace kiln::test
