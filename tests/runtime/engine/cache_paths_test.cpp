// How a launch gets its kernel from the cache, and what it does when the driver or the disk refuse.

#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {

TEST_CASE("Without NVRTC the newest toolchain's entry is taken") {
  ScaleMachine machine({.mark = "older", .toolchain_major = 12, .toolchain_minor = 9});
  Engine engine = machine.engine();
  plant(engine, "scale", "sm_90", machine.cache_root(), {.mark = "newer"});
  ScaleCall().launch(engine);
  CHECK(contains(machine.fake().launches().at(0).image, "newer"));
}

TEST_CASE("Entries of a later CUDA major than the driver's are passed over") {
  ScaleMachine machine({.mark = "older", .toolchain_major = 12, .toolchain_minor = 9});
  machine.fake().set_version(12080);
  Engine engine = machine.engine();
  plant(engine, "scale", "sm_90", machine.cache_root(), {.mark = "newer"});
  ScaleCall().launch(engine);
  CHECK(contains(machine.fake().launches().at(0).image, "older"));
  CHECK(machine.fake().count("cuLibraryLoadData") == 1);
}

TEST_CASE(
    "An entry that the driver refuses is moved aside and the next toolchain's is tried (field "
    "report 49)") {
  ScaleMachine machine({.mark = "older", .toolchain_major = 12, .toolchain_minor = 9});
  Engine engine = machine.engine();
  plant(engine, "scale", "sm_90", machine.cache_root(), {.mark = "newer"});
  SECTION("when the library is loaded") {
    machine.fake().refuse_images("newer");
  }
  SECTION("when the function is asked for") {
    machine.fake().fail("cuKernelGetFunction", CUDA_ERROR_NO_BINARY_FOR_GPU, 1);
  }
  SECTION("when the code goes to the device") {
    machine.fake().fail("cuFuncLoad", CUDA_ERROR_NO_BINARY_FOR_GPU, 1);
  }
  ScaleCall().launch(engine);
  CHECK(contains(machine.fake().launches().at(0).image, "older"));
  CHECK(engine.counters().rejected_entries == 1);
  CHECK(machine.log().lines().size() == 1);
  CHECK_FALSE(std::filesystem::is_empty(machine.cache_root() + "/v1/quarantine"));

  Engine next = machine.engine();
  ScaleCall().launch(next);
  CHECK(next.counters().rejected_entries == 0);
}

TEST_CASE("When the driver refuses every entry and none can be compiled, the error tells it all") {
  ScaleMachine machine;
  machine.fake().refuse_images("first");
  Engine engine = machine.engine();
  const std::string message =
      error_of(ErrorCode::kCompilerUnavailable, [&] { ScaleCall().launch(engine); });
  CHECK(contains(message, "scale ROWS=1 PDL=true"));
  CHECK(contains(message, "The driver refused the cached"));
  CHECK(contains(message, "CUDA_ERROR_INVALID_IMAGE"));
}

TEST_CASE("A driver error that is not the entry's fault leaves the entry alone") {
  ScaleMachine machine;
  machine.fake().fail("cuLibraryLoadData", CUDA_ERROR_OUT_OF_MEMORY, 1);
  Engine engine = machine.engine();
  CHECK(contains(error_of(ErrorCode::kDriverError, [&] { ScaleCall().launch(engine); }),
                 "CUDA_ERROR_OUT_OF_MEMORY"));
  CHECK(engine.counters().rejected_entries == 0);
  ScaleCall().launch(engine);
  CHECK(machine.fake().launches().size() == 1);
}

TEST_CASE("An entry for a better target comes first") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  plant(engine, "scale", "sm_90a", machine.cache_root(), {.mark = "specific"});
  ScaleCall().launch(engine);
  CHECK(contains(machine.fake().launches().at(0).image, "sm_90a specific"));
}

TEST_CASE("Only targets of the device's list may hit (field reports 40 and 98)") {
  Machine machine;
  machine.fake().set_devices({{.name = "Fake GB300", .major = 10, .minor = 3}});
  machine.enter();
  Engine engine(machine.options());
  engine.register_op(scale_op());
  plant(engine, "scale", "sm_100a", machine.cache_root());
  plant(engine, "scale", "sm_90", machine.cache_root());
  error_of(ErrorCode::kCompilerUnavailable, [&] { ScaleCall().launch(engine); });
  Engine again(machine.options());
  again.register_op(scale_op());
  plant(again, "scale", "sm_100f", machine.cache_root());
  ScaleCall().launch(again);
  CHECK(contains(machine.fake().launches().at(0).image, "sm_100f"));
}

TEST_CASE("All kernels of an op come from one target") {
  Machine machine;
  machine.enter();
  Engine engine(machine.options());
  engine.register_op(two_step_op());
  // sm_90a has only the first kernel; sm_90 has both.
  for (const Variant& variant : engine.variants(engine.op("two_step"), parse_target("sm_90a"))) {
    if (variant.kernel == 0) {
      publish(machine.cache_root(), planted_entry(variant));
    }
  }
  plant(engine, "two_step", "sm_90", machine.cache_root());
  const Tensor x(address(0x10000), DType::kF32, {2, 32});
  const Tensor out(address(0x20000), DType::kF32, {2, 32});
  engine.launch("two_step", {x, out}, nullptr,
                {.workspace = address(0x40000), .workspace_bytes = 8});
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 2);
  CHECK(contains(launches[0].image, "sm_90 "));
  CHECK(contains(launches[1].image, "sm_90 "));
}

namespace {

// Runs `body` in a child process as a user who owns nothing here, and gives its exit code. Only
// root can become somebody else; others take away their own right to write.
template <class Body>
int as_somebody_else(const std::string& directory, const Body& body) {
  namespace fs = std::filesystem;
  constexpr uid_t kNobodyInParticular = 54321;
  const auto readable = fs::perms::owner_read | fs::perms::owner_exec | fs::perms::group_read |
                        fs::perms::group_exec | fs::perms::others_read | fs::perms::others_exec;
  fs::permissions(directory, readable);
  for (const auto& file : fs::recursive_directory_iterator(directory)) {
    fs::permissions(file.path(), readable);
  }
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(kNobodyInParticular) != 0) {
      _exit(100);
    }
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  for (const auto& file : fs::recursive_directory_iterator(directory)) {
    fs::permissions(file.path(), fs::perms::owner_all);
  }
  fs::permissions(directory, fs::perms::owner_all);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

}  // namespace

TEST_CASE("A prebuilt root serves a user who cannot write it: every kernel a hit, one warning") {
  ScaleMachine machine;
  const int wrong = as_somebody_else(machine.dir().str(), [&] {
    try {
      Engine engine = machine.engine();
      for (int m = 1; m < 9; ++m) {
        ScaleCall(m).launch(engine);
      }
      const Counters counters = engine.counters();
      return (counters.cache_misses == 0 && counters.cache_hits == 2 ? 0 : 1) +
             (machine.log().count_with("KILN_CACHE_DIR") == 1 ? 0 : 2) +
             (machine.fake().launches().size() == 8 ? 0 : 4);
    } catch (const Error&) {
      return 50;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("A root that cannot be written is a warning, but not where compiling is forbidden") {
  Machine machine;
  EngineOptions options = machine.options();
  const int wrong = as_somebody_else(machine.dir().str(), [&] {
    options.jit = JitPolicy::kForbid;
    const Engine serving(options);
    const bool silent = machine.log().lines().empty();
    options.jit = JitPolicy::kAllow;
    const Engine compiling(options);
    return (silent ? 0 : 1) + (machine.log().count_with("cannot be written") == 1 ? 0 : 2);
  });
  CHECK(wrong == 0);
}

}  // namespace kiln::test
