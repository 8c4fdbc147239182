// The engine with a real NVRTC and the fake driver.

#include "tests/runtime/engine/compile_support.hpp"

namespace kiln::test {
namespace {

Engine scale_engine(const EngineOptions& options) {
  Engine engine(options);
  engine.register_op(scale_op());
  return engine;
}

std::vector<std::filesystem::path> entries(const std::string& root) {
  std::vector<std::filesystem::path> found;
  if (std::filesystem::exists(root)) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(root)) {
      if (file.path().extension() == ".cubin") {
        found.push_back(file.path());
      }
    }
  }
  return found;
}

}  // namespace

TEST_CASE("A miss is compiled, loaded, stored and launched; the next engine finds it") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  {
    Engine engine = scale_engine(machine.options());
    ScaleCall().launch(engine);
    ScaleCall().launch(engine);
    CHECK(engine.counters().compiles == 1);
    CHECK(engine.counters().cache_misses == 1);
  }
  CHECK(entries(machine.cache_root()).size() == 1);
  CHECK(contains(machine.fake().launches().at(0).symbol, "scale"));
  // The kernel waits, as its PTX says, so it is launched early.
  CHECK(machine.fake().launches().at(0).attributes.size() == 1);
  Engine engine = scale_engine(machine.options());
  ScaleCall().launch(engine);
  CHECK(engine.counters().compiles == 0);
  CHECK(engine.counters().cache_hits == 1);
}

TEST_CASE("A built-in op launches as its description says") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  Engine engine(machine.options());
  const Tensor x(address(0x100000), DType::kBF16, {8, 512});
  const Tensor w(address(0x200000), DType::kBF16, {128, 512});
  const Tensor out(address(0x300000), DType::kBF16, {8, 128});
  engine.launch("n128k512_gemm_bf16", {x, w, out}, nullptr);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 1);
  CHECK(contains(launches[0].symbol, "n128k512_gemm_bf16"));
  CHECK(launches[0].attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) != nullptr);
}

TEST_CASE(
    "A compile that fails is an error with the compiler's log, each time it is asked for (field "
    "report 66)") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  Engine engine(machine.options());
  Op op = scale_op();
  op.sources[0].text += "int broken = undeclared_name;\n";
  engine.register_op(op);
  for (int i = 0; i < 2; ++i) {
    const std::string message =
        error_of(ErrorCode::kCompileFailed, [&] { ScaleCall().launch(engine); });
    CHECK(contains(message, "undeclared_name"));
    CHECK(contains(message, "scale ROWS=1 PDL=true"));
  }
  CHECK(machine.fake().count("cuLibraryLoadData") == 0);
  CHECK(entries(machine.cache_root()).empty());
}

TEST_CASE("A truncated entry is compiled again, and the new one takes its place") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  {
    Engine engine = scale_engine(machine.options());
    ScaleCall().launch(engine);
  }
  const std::filesystem::path path = entries(machine.cache_root()).at(0);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size / 2);
  Engine engine = scale_engine(machine.options());
  ScaleCall().launch(engine);
  CHECK(engine.counters().compiles == 1);
  CHECK(engine.counters().rejected_entries == 1);
  CHECK(std::filesystem::file_size(path) == size);
  CHECK(machine.fake().launches().size() == 2);
}

TEST_CASE(
    "An entry that the driver refuses is compiled once; a second refusal is the error (field "
    "report 73)") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  {
    Engine engine = scale_engine(machine.options());
    engine.compile(engine.variants(engine.op("scale"), parse_target("sm_90a"))[1]);
  }
  REQUIRE(entries(machine.cache_root()).size() == 1);
  SECTION("compiled once") {
    machine.fake().fail("cuLibraryLoadData", CUDA_ERROR_INVALID_IMAGE, 1);
    Engine engine = scale_engine(machine.options());
    ScaleCall().launch(engine);
    CHECK(engine.counters().compiles == 1);
    CHECK(engine.counters().rejected_entries == 1);
    CHECK(entries(machine.cache_root()).size() == 2);  // The new one, and the quarantined one.
  }
  SECTION("refused again") {
    machine.fake().fail("cuLibraryLoadData", CUDA_ERROR_INVALID_IMAGE, 100);
    Engine engine = scale_engine(machine.options());
    const std::string message =
        error_of(ErrorCode::kDriverError, [&] { ScaleCall().launch(engine); });
    CHECK(contains(message, "just compiled"));
    CHECK(contains(message, "CUDA_ERROR_INVALID_IMAGE"));
    CHECK(engine.counters().compiles == 1);
    CHECK(machine.fake().count("cuLibraryLoadData") == 2);
    // What the driver refused is not offered to the next process.
    machine.fake().fail("cuLibraryLoadData", CUDA_ERROR_INVALID_IMAGE, 0);
    Engine next = scale_engine(machine.options());
    ScaleCall().launch(next);
    CHECK(next.counters().cache_hits == 0);
    CHECK(next.counters().compiles == 1);
  }
}

TEST_CASE("With a cache that cannot be written a kernel is compiled once and launched") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  EngineOptions options = machine.options();
  options.cache_root = "/proc/kiln-cache";  // No directory can be made here, not even by root.
  Engine engine = scale_engine(options);
  ScaleCall(1).launch(engine);
  ScaleCall(2).launch(engine);
  CHECK(machine.fake().launches().size() == 2);
  const KernelInfo info =
      engine.compile(engine.variants(engine.op("scale"), parse_target("sm_90a"))[1]);
  CHECK(contains(info.name, "ROWS=1 PDL=true"));
  CHECK_FALSE(info.stored);
  CHECK(engine.counters().compiles == 1);
  CHECK(machine.log().lines().size() == 1);
  CHECK(machine.log().count_with("KILN_CACHE_DIR") == 1);

  PrebuildRequest request;
  request.targets = {parse_target("sm_90a")};
  request.ops = {"scale"};
  const PrebuildReport report = engine.prebuild(request);
  CHECK_FALSE(report.ok());
  CHECK(report.failed.size() == 4);
  CHECK(contains(report.failed[0].message, "not stored"));
  CHECK(report.failed[0].code == ErrorCode::kNotStored);
}

TEST_CASE("prebuild makes every kernel, and a second run finds them all") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  PrebuildRequest request;
  request.targets = {parse_target("sm_90a"), parse_target("sm_90"), parse_target("sm_90a")};
  request.ops = {"scal*"};
  request.jobs = 3;
  std::vector<std::size_t> done;
  request.progress = [&](std::size_t count, std::size_t total, const KernelInfo& info) {
    done.push_back(count);
    CHECK(total == 8);
    CHECK(contains(info.name, "scale"));
  };
  Engine engine = scale_engine(machine.options());
  const PrebuildReport first = engine.prebuild(request);
  CHECK(first.ok());
  CHECK(first.compiled == 8);
  CHECK(first.cached == 0);
  CHECK(first.skipped.empty());
  REQUIRE(first.kernels.size() == 8);
  for (const KernelInfo& kernel : first.kernels) {
    CHECK(kernel.stored);
    CHECK_FALSE(kernel.from_cache);
    CHECK(kernel.cubin_bytes > 0);
    CHECK(kernel.registers > 0);
    CHECK(kernel.key.size() == 32);
    CHECK(kernel.pdl_wait == contains(kernel.name, "PDL=true"));
  }
  CHECK(done == std::vector<std::size_t>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(entries(machine.cache_root()).size() == 8);

  Engine again = scale_engine(machine.options());
  request.progress = nullptr;
  const PrebuildReport second = again.prebuild(request);
  CHECK(second.ok());
  CHECK(second.compiled == 0);
  CHECK(second.cached == 8);
  for (std::size_t i = 0; i < second.kernels.size(); ++i) {
    CHECK(second.kernels[i].from_cache);
    CHECK(second.kernels[i].name == first.kernels[i].name);
    CHECK(second.kernels[i].key == first.kernels[i].key);
    CHECK(second.kernels[i].symbol == first.kernels[i].symbol);
  }
}

TEST_CASE("prebuild lists what cannot be served with its reason, and that is no failure") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  Engine engine = scale_engine(machine.options());
  PrebuildRequest request;
  request.targets = {parse_target("sm_80"), parse_target("sm_90")};
  request.ops = {"scale", "no_such_*"};
  const PrebuildReport report = engine.prebuild(request);
  CHECK(report.ok());
  CHECK(report.compiled == 4);
  REQUIRE(report.skipped.size() == 2);
  CHECK(report.skipped[0].op == "no_such_*");
  CHECK(report.skipped[1].op == "scale");
  CHECK(report.skipped[1].target == "sm_80");
  CHECK(contains(report.skipped[1].reason, "9.0"));

  request.ops = {"no_such_*"};
  CHECK_FALSE(engine.prebuild(request).ok());
}

TEST_CASE("prebuild reports a kernel that does not compile and makes the others") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  Engine engine(machine.options());
  Op op = scale_op();
  op.sources[0].text =
      "template <int R, bool P> struct Check { static_assert(R != 2, \"two rows are broken\"); };\n"
      "template <int ROWS, bool PDL>\n"
      "__global__ void scale(const float* x, long long stride, const float* bias, float factor,\n"
      "                      float* out, int m, long long n, bool early) {\n"
      "  Check<ROWS, PDL> check;\n"
      "  if (PDL) asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
      "  out[0] = sizeof(check);\n"
      "}\n";
  engine.register_op(op);
  PrebuildRequest request;
  request.targets = {parse_target("sm_90")};
  request.ops = {"scale"};
  request.jobs = 2;
  std::size_t reports = 0;
  request.progress = [&](std::size_t, std::size_t, const KernelInfo&) { ++reports; };
  const PrebuildReport report = engine.prebuild(request);
  CHECK_FALSE(report.ok());
  CHECK(report.compiled == 2);
  REQUIRE(report.failed.size() == 2);
  CHECK(contains(report.failed[0].kernel, "ROWS=2"));
  CHECK(contains(report.failed[0].message, "two rows are broken"));
  CHECK(reports == 4);
}

TEST_CASE("What the progress callback throws comes out of prebuild") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  Engine engine = scale_engine(machine.options());
  PrebuildRequest request;
  request.targets = {parse_target("sm_90")};
  request.ops = {"scale"};
  request.jobs = 2;
  request.progress = [](std::size_t, std::size_t, const KernelInfo&) {
    throw std::runtime_error("stop");
  };
  CHECK_THROWS_AS(engine.prebuild(request), std::runtime_error);
}

TEST_CASE("A malformed prebuild request is refused") {
  Machine machine;
  Engine engine(machine.options());
  PrebuildRequest request;
  CHECK(contains(error_of(ErrorCode::kInvalidArgument, [&] { engine.prebuild(request); }),
                 "targets"));
  request.targets = {parse_target("sm_90")};
  request.jobs = -1;
  CHECK(contains(error_of(ErrorCode::kInvalidArgument, [&] { engine.prebuild(request); }), "jobs"));
  request.jobs = 1;
  request.shard = {2, 2};
  CHECK(
      contains(error_of(ErrorCode::kInvalidArgument, [&] { engine.prebuild(request); }), "shard"));
}

TEST_CASE("prebuild without NVRTC fails for what is not in the cache and serves what is") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  PrebuildRequest request;
  request.targets = {parse_target("sm_90")};
  request.ops = {"scale"};
  CHECK(engine.prebuild(request).cached == 4);
  CHECK(engine.prebuild(request).ok());
  request.targets = {parse_target("sm_90a")};
  const PrebuildReport report = engine.prebuild(request);
  CHECK_FALSE(report.ok());
  REQUIRE(report.failed.size() == 4);
  CHECK(contains(report.failed[0].message, machine.options().nvrtc));
}

}  // namespace kiln::test
