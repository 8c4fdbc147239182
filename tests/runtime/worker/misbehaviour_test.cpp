#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/worker/pool.hpp"
#include "tests/runtime/worker/workers.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::runtime {
namespace {

using std::chrono::milliseconds;
using test::contains;

Toolchain some_toolchain() {
  Toolchain toolchain;
  toolchain.nvrtc_path = "/nowhere/libnvrtc.so.13";
  toolchain.builtins_path = "/nowhere/libnvrtc-builtins.so.13.0";
  toolchain.major = 13;
  return toolchain;
}

auto start(const std::string& executable) {
  WorkerPoolOptions options;
  options.executable = executable;
  options.start_timeout = milliseconds(3'000);
  options.compile_timeout = milliseconds(300);
  return test::try_start_pool(some_toolchain(), options);
}

std::string fake_worker() {
  return (std::filesystem::path(file_of_this_code()).parent_path() / "kiln_fake_worker").string();
}

auto start_fake(const std::string& how) {
  ::setenv("KILN_FAKE_WORKER", how.c_str(), 1);
  return start(fake_worker());
}

StartFailure failure_of(const std::string& executable) {
  const auto pool = start(executable);
  REQUIRE_FALSE(pool);
  CHECK_FALSE(test::has_children());
  return pool.error();
}

StartFailure fake_failure(const std::string& how) {
  const auto pool = start_fake(how);
  REQUIRE_FALSE(pool);
  CHECK_FALSE(test::has_children());
  return pool.error();
}

TEST_CASE("A program that cannot be started is no worker, and the failure says why") {
  const test::TempDir dir;
  std::ofstream(dir.path() / "data") << "no program\n";
  std::ofstream(dir.path() / "text") << "no program\n";
  std::filesystem::permissions(dir.path() / "text", std::filesystem::perms::owner_all);
  const auto check = [&](const std::string& name, const std::string& reason) {
    const StartFailure failure = failure_of(dir.str(name));
    CHECK(failure.kind == StartFailure::Kind::kNoWorker);
    CHECK(contains(failure.failure.message, dir.str(name)));
    CHECK(contains(failure.failure.message, reason));
  };
  check("absent", "ENOENT");
  check("data", "EACCES");
  check("text", "ENOEXEC");
}

TEST_CASE("A program that answers the hello wrongly is no worker, and the failure says how") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"garbage", "answered with bytes that are no message"},
      {"huge", "answered with a message of 1152921504606846"},
      {"version", "answered with version 7 of the protocol"},
      {"other build", "cannot be used: the fake worker's reason"},
      {"half", "exited with code 5"},
      {"exit", "exited with code 3"},
      {"hang", "did not answer within 3 s"},
  };
  const std::size_t descriptors = test::open_descriptors();
  for (const auto& [how, reason] : cases) {
    CAPTURE(how);
    const StartFailure failure = fake_failure(how);
    CHECK(failure.kind == StartFailure::Kind::kNoWorker);
    CHECK(failure.failure.code == ErrorCode::kCompilerLost);
    CHECK(contains(failure.failure.message, "kiln_fake_worker"));
    CHECK(contains(failure.failure.message, reason));
  }
  CHECK(test::open_descriptors() == descriptors);
}

TEST_CASE("An NVRTC that does not load is told from a worker that does not start") {
  const StartFailure failure = fake_failure("no NVRTC");
  CHECK(failure.kind == StartFailure::Kind::kNoCompiler);
  CHECK(failure.failure.code == ErrorCode::kCompilerUnavailable);
  CHECK(failure.failure.message == "the fake worker's reason");
  // The worker that is shipped says what loading in this process says.
  const auto real = test::try_start_pool(some_toolchain(), test::worker_options());
  const auto here = Nvrtc::load(some_toolchain());
  REQUIRE_FALSE(real);
  REQUIRE_FALSE(here);
  CHECK(real.error().kind == StartFailure::Kind::kNoCompiler);
  CHECK(real.error().failure.code == here.error().code);
  CHECK(real.error().failure.message == here.error().message);
}

TEST_CASE("A worker that answers a compile wrongly is tried once more, and that is the end of it") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"compile: garbage", "answered with bytes that are no message"},
      {"compile: damaged", "answered with a malformed message of type compile_reply"},
      {"compile: no kernel", "answered with 0 kernels where 1 were asked for"},
      {"compile: exit", "exited with code 0"},
      {"compile: hang", "did not answer within 0.3 s"},
  };
  const std::size_t descriptors = test::open_descriptors();
  for (const auto& [how, reason] : cases) {
    CAPTURE(how);
    const auto pool = start_fake(how);
    REQUIRE(pool);
    const auto unit = test::scale_unit();
    const auto lost = (*pool)->compile({&unit, 1});
    REQUIRE_FALSE(lost);
    CHECK(lost.error().code == ErrorCode::kCompilerLost);
    CHECK(contains(lost.error().message, unit.label));
    const std::string& message = lost.error().message;
    CHECK(message.find(reason) != message.rfind(reason));
    CHECK((*pool)->counters().started == 2);
    CHECK((*pool)->counters().lost == 2);
    CHECK((*pool)->pids().empty());
    CHECK_FALSE(test::has_children());
  }
  CHECK(test::open_descriptors() == descriptors);
}

TEST_CASE("A worker whose file is gone when a new one is needed is an error that says so") {
  const test::TempDir dir;
  std::filesystem::copy_file(fake_worker(), dir.path() / "worker");
  ::setenv("KILN_FAKE_WORKER", "compile: exit", 1);
  const auto pool = start(dir.str("worker"));
  REQUIRE(pool);
  std::filesystem::remove(dir.path() / "worker");
  const auto unit = test::scale_unit();
  const auto lost = (*pool)->compile({&unit, 1});
  REQUIRE_FALSE(lost);
  CHECK(contains(lost.error().message, "exited with code 0"));
  CHECK(contains(lost.error().message, "cannot start the compile worker " + dir.str("worker")));
}

}  // namespace
}  // namespace kiln::runtime
