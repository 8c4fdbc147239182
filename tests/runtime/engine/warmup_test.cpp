// A warm-up from a cache: what is read on threads ahead is loaded in order on the caller's.
#include <set>

#include "tests/runtime/engine/machine.hpp"
#include "tests/support/tiny_op.hpp"

namespace kiln::test {
namespace {

EngineOptions serving(Machine& machine) {
  EngineOptions options = machine.options();
  options.jit = JitPolicy::kForbid;
  return options;
}

std::vector<Variant> tiny_variants(Engine& engine, int count) {
  engine.register_op(tiny_op(count));
  return engine.variants(engine.op("tiny"), parse_target("sm_90"));
}

}  // namespace

TEST_CASE("A warm-up loads each kernel once, however many there are") {
  for (int count = 1; count <= 11; ++count) {
    CAPTURE(count);
    Machine machine;
    machine.enter();
    Engine engine(serving(machine));
    WarmupRequest request;
    request.variants = tiny_variants(engine, count);
    plant(engine, "tiny", "sm_90", machine.cache_root());
    std::vector<std::string> names;
    request.progress = [&](std::size_t, std::size_t, const std::string& name) {
      names.push_back(name);
    };
    const WarmupReport report = engine.warmup(request);
    const auto kernels = static_cast<std::size_t>(count);
    CHECK(report.ok());
    CHECK(report.prepared == kernels);
    CHECK(report.loaded == kernels);
    CHECK(machine.fake().count("cuLibraryLoadData") == kernels);
    CHECK(machine.fake().count("cuKernelGetFunction") == kernels);
    REQUIRE(names.size() == kernels);
    for (std::size_t i = 0; i < kernels; ++i) {
      CHECK(names[i] == to_string(request.variants[i]));
    }
    CHECK(engine.warmup(request).prepared == kernels);
    CHECK(machine.fake().count("cuLibraryLoadData") == kernels);
  }
}

TEST_CASE("A warm-up names what is in no cache and what the driver refuses, and loads the rest") {
  Machine machine;
  machine.enter();
  Engine engine(serving(machine));
  WarmupRequest request;
  request.variants = tiny_variants(engine, 9);
  for (std::size_t i = 0; i < request.variants.size(); ++i) {
    if (i != 3) {
      publish(machine.cache_root(),
              planted_entry(request.variants[i], {.mark = i == 6 ? "bad" : "good"}));
    }
  }
  machine.fake().refuse_images("bad");
  const WarmupReport report = engine.warmup(request);
  CHECK(report.prepared == 7);
  CHECK(report.loaded == 7);
  REQUIRE(report.failed.size() == 2);
  CHECK(report.failed[0].name == to_string(request.variants[3]));
  CHECK(report.failed[1].name == to_string(request.variants[6]));
  CHECK(contains(report.failed[1].message, "refused"));
}

TEST_CASE("A warm-up during a capture spoils nothing, on whatever thread it loads") {
  Machine machine;
  CUstream stream = machine.fake().make_stream(machine.enter());
  Engine engine(serving(machine));
  WarmupRequest request;
  request.variants = tiny_variants(engine, 9);
  plant(engine, "tiny", "sm_90", machine.cache_root());
  machine.fake().set_capturing(stream, true);
  CHECK(engine.warmup(request).prepared == 9);
  CHECK_FALSE(machine.fake().spoiled(stream));
  const auto modes = machine.fake().load_capture_modes();
  CHECK(std::set(modes.begin(), modes.end()) == std::set{CU_STREAM_CAPTURE_MODE_RELAXED});
}

}  // namespace kiln::test
