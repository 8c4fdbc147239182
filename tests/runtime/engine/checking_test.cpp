// The checking mode: what it adds to a launch, and errors that outlive theirs.
#include <optional>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {
namespace {

/// A checking engine whose call's tensors are memory that the fake driver knows.
class CheckingMachine : public ScaleMachine {
 public:
  CheckingMachine() {
    fake().add_memory(0x10000, 0x10000, 0);
    fake().add_memory(0x20000, 0x10000, 0);
    fake().add_memory(0x30000000, 0x10000, 0);
    fake().add_memory(0x40000, 0x10000, 0);
  }
  EngineOptions checking() {
    EngineOptions with = options();
    with.check = true;
    with.log = log().sink(LogLevel::kInfo);
    return with;
  }
  // Since the last call of forget_calls, but for the questions about pointers.
  std::vector<std::string> calls_but_questions() {
    std::vector<std::string> calls = fake().calls();
    std::erase(calls, "cuPointerGetAttribute");
    return calls;
  }
};

/// One whose engine has the op of two kernels, with a call's tensors.
class TwoStepMachine : public CheckingMachine {
 public:
  TwoStepMachine() : checker(engine(checking())) {
    checker.register_op(two_step_op());
    plant(checker, "two_step", "sm_90", cache_root());
  }
  Engine checker;
  const Tensor x{address(0x10000), DType::kF32, {2, 32}};
  const Tensor out{address(0x20000), DType::kF32, {2, 32}};
};

}  // namespace

TEST_CASE("In the checking mode a launch is logged before it is made, and waited for") {
  CheckingMachine machine;
  Engine engine = machine.engine(machine.checking());
  CUstream stream = machine.fake().make_stream(machine.context);
  const ScaleCall call;
  const std::vector<Arg> args{call.x, call.bias, call.factor, call.out};
  const Plan plan = engine.plan(engine.op("scale"), args);
  std::size_t logged = 0;
  machine.fake().on_launch(
      [&](const fake::Launch&) { logged = machine.log().count_with("launch scale: "); });
  const std::vector<std::string> expected{"cuStreamIsCapturing", "cuLaunchKernelEx",
                                          "cuStreamSynchronize"};
  machine.fake().forget_calls();
  plan.launch(args, stream);
  CHECK(machine.calls_but_questions() == expected);
  CHECK(machine.fake().count("cuPointerGetAttribute") > 0);
  CHECK(logged == 1);
  machine.fake().forget_calls();
  call.launch(engine, stream, {.serialize = true, .constants_ready = false});
  CHECK(machine.calls_but_questions() == expected);
  CHECK(logged == 2);
  const std::vector<std::string> lines = machine.log().lines();
  REQUIRE(lines.size() == 2);
  CHECK(
      contains(lines[0],
               "launch scale: x f32[3, 64] strides [128, 1] at 0x10000, bias f32[64] strides [1] "
               "at 0x20000, factor 1.5, out f32[3, 64] strides [64, 1] at 0x30000000; stream 0x"));
  CHECK(contains(lines[1], "; serialized; constants not ready"));
}

TEST_CASE("In the checking mode each kernel of an op is waited for, but for a captured stream") {
  TwoStepMachine machine;
  Engine& engine = machine.checker;
  const Tensor& x = machine.x;
  const Tensor& out = machine.out;
  const LaunchOptions options{.workspace = address(0x40000), .workspace_bytes = 8};
  CUstream stream = machine.fake().make_stream(machine.context);
  engine.launch("two_step", {x, out}, stream, options);
  CHECK(machine.fake().count("cuStreamSynchronize") == 2);
  machine.fake().set_capturing(stream, true);
  engine.launch("two_step", {x, out}, stream, options);
  CHECK(machine.fake().launches().size() == 4);
  CHECK(machine.fake().count("cuStreamSynchronize") == 2);
  CHECK_FALSE(machine.fake().spoiled(stream));
}

TEST_CASE("The checking mode asks for the workspace's place, and compares it with the tensors'") {
  TwoStepMachine machine;
  Engine& engine = machine.checker;
  const Tensor& x = machine.x;
  const Tensor& out = machine.out;
  const std::vector<Arg> args{x, out};
  const auto refused_with = [&](std::uintptr_t workspace) {
    const LaunchOptions options{.workspace = address(workspace), .workspace_bytes = 256};
    const std::string message = error_of(ErrorCode::kInvalidArgument, [&] {
      engine.launch("two_step", {x, out}, nullptr, options);
    });
    const Plan plan = engine.plan(engine.op("two_step"), args);
    CHECK(error_of(ErrorCode::kInvalidArgument, [&] { plan.launch(args, nullptr, options); }) ==
          message);
    return message;
  };
  CHECK(contains(refused_with(0x90000), "LaunchOptions::workspace"));
  CHECK(contains(refused_with(0x90000), "no memory that the CUDA driver knows"));
  CHECK(contains(refused_with(0x10000), "overlap those of argument x"));
  CHECK(contains(refused_with(0x20000), "overlap those of argument out, 0x20000 to 0x200ff"));
  CHECK(machine.fake().launches().empty());
  // Only what the op takes of a larger one counts.
  engine.launch("two_step", {x, out}, nullptr,
                {.workspace = address(0x20100), .workspace_bytes = std::size_t{1} << 30});
  CHECK(machine.fake().launches().size() == 2);
}

TEST_CASE("A kernel that fails is named in the checking mode, and what that means said once") {
  CheckingMachine machine;
  Engine engine = machine.engine(machine.checking());
  machine.fake().fail("cuStreamSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS, 1);
  const std::string message =
      error_of(ErrorCode::kDriverError, [&] { ScaleCall().launch(engine); });
  CHECK(contains(message, "scale, kernel scale, or what its stream held before it"));
  const std::string meaning = "every CUDA call of this process fails from now on";
  const std::size_t first = message.find(meaning);
  REQUIRE(first != std::string::npos);
  CHECK(message.find(meaning, first + 1) == std::string::npos);
}

TEST_CASE("After a kernel has failed every launch, warm or cold, says that the process must end") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall().launch(engine);
  machine.fake().fail("cuLaunchKernelEx", CUDA_ERROR_LAUNCH_FAILED, 3);
  machine.fake().fail("cuLibraryLoadData", CUDA_ERROR_LAUNCH_FAILED, 1);
  for (const std::int64_t m : {3, 3, 5}) {
    const std::string message =
        error_of(ErrorCode::kDriverError, [&] { ScaleCall(m).launch(engine); });
    CHECK(contains(message, "CUDA_ERROR_LAUNCH_FAILED"));
    CHECK(contains(message, "end it, and run it with KILN_CHECK=1"));
  }
}

TEST_CASE("After a kernel has failed the checking mode says that, and nothing about pointers") {
  CheckingMachine machine;
  Engine engine = machine.engine(machine.checking());
  ScaleCall().launch(engine);
  machine.fake().fail("cuPointerGetAttribute", CUDA_ERROR_ILLEGAL_ADDRESS, 1000);
  for (const std::int64_t m : {3, 3, 5}) {
    const std::string message =
        error_of(ErrorCode::kDriverError, [&] { ScaleCall(m).launch(engine); });
    CHECK(contains(message, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    CHECK(contains(message, "every CUDA call of this process fails from now on"));
  }
}

TEST_CASE("In a process forked after the first use every call says so, and before it all works") {
  CheckingMachine machine;
  const EngineOptions options = GENERATE(false, true) ? machine.checking() : machine.options();
  Engine used = machine.engine(options);
  ScaleCall().launch(used);
  Engine fresh = machine.engine(options);
  const auto tells = [&](Engine& engine, std::int64_t m) {
    try {
      ScaleCall(m).launch(engine);
    } catch (const Error& error) {
      return error.code() == ErrorCode::kDriverUnavailable && contains(error.what(), "forked from");
    }
    return false;
  };
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool warm = tells(used, 3);
    const bool cold = tells(used, 5);
    const bool first = tells(fresh, 3);
    _exit(warm && cold && first ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  ScaleCall().launch(used);  // The parent is as before.
}

TEST_CASE("An engine that has prefetched can be destroyed, and asked, in a forked process") {
  ScaleMachine machine;
  std::optional<Engine> engine = machine.engine();
  const ScaleCall call;
  const Arg args[] = {call.x, call.bias, call.factor, call.out};
  engine->prefetch(engine->op("scale"), args).get();  // Its thread now waits for more.
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    bool told = false;
    try {
      engine->prefetch(engine->op("scale"), args).get();
    } catch (const Error& error) {
      told = error.code() == ErrorCode::kDriverUnavailable && contains(error.what(), "forked from");
    }
    engine.reset();
    _exit(told ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  engine.reset();
}

TEST_CASE("A process forked before the first use launches") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bool launched = true;
    try {
      ScaleCall().launch(engine);
    } catch (const Error&) {
      launched = false;
    }
    _exit(launched ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace kiln::test
