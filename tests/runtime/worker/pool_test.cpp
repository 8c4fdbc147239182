#include "runtime/worker/pool.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <future>

#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/runtime/worker/workers.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::runtime {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test::comes_to_compile;
using test::comes_true;
using test::contains;
using test::scale_unit;
using test::slow_unit;
using test::start_pool;
using test::worker_options;

Result<CompiledProgram> compile(const Compiler& compiler, const registry::CompileUnit& unit) {
  return compiler.compile({&unit, 1});
}

void require_compiles(const Compiler& compiler, const registry::CompileUnit& unit = scale_unit()) {
  const auto compiled = compile(compiler, unit);
  if (!compiled) {
    FAIL(compiled.error().message);
  }
  CHECK(compiled->kernels.size() == 1);
}

/// A compile on a thread of its own.
std::future<Result<CompiledProgram>> compile_aside(const Compiler& compiler,
                                                   registry::CompileUnit unit) {
  return std::async(std::launch::async,
                    [&compiler, unit = std::move(unit)] { return compile(compiler, unit); });
}

// One pid, once there is just one and it is not `before`.
pid_t only_pid(const WorkerPool& pool, pid_t before = 0) {
  pid_t pid = 0;
  REQUIRE(comes_true([&] {
    const auto pids = pool.pids();
    pid = pids.size() == 1 ? pids.front() : 0;
    return pid != 0 && pid != before;
  }));
  return pid;
}

WorkerPoolOptions staying() {
  WorkerPoolOptions options = worker_options();
  options.linger = hours(1);
  return options;
}

TEST_CASE("A worker compiles to the same bytes as this process") {
  const auto pool = start_pool(staying());
  auto nvrtc = Nvrtc::load(test::machine_toolchain());
  REQUIRE(nvrtc);
  std::vector<registry::CompileUnit> units{scale_unit(), scale_unit()};
  units[1].name_expression = "scale<5>";
  units[1].label = "test_op N=5";
  const auto here = nvrtc->compile(units);
  const auto there = pool->compile(units);
  REQUIRE(here);
  REQUIRE(there);
  CHECK(here->cubin == there->cubin);
  CHECK(there->ptx.empty());
  REQUIRE(there->kernels.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(here->kernels[i].symbol == there->kernels[i].symbol);
    CHECK(here->kernels[i].resources == there->kernels[i].resources);
    CHECK(here->kernels[i].pdl_wait == there->kernels[i].pdl_wait);
  }
  CHECK(pool->targets() == nvrtc->targets());
  CHECK(pool->counters().started == 1);
  CHECK(pool->counters().lost == 0);
}

TEST_CASE("A kernel that does not compile is NVRTC's own failure, and not tried again") {
  const auto pool = start_pool(staying());
  auto nvrtc = Nvrtc::load(test::machine_toolchain());
  REQUIRE(nvrtc);
  const auto broken = test::make_unit("no_such_type value;\n", "scale<3>");
  const auto here = compile(*nvrtc, broken);
  const auto there = compile(*pool, broken);
  REQUIRE_FALSE(here);
  REQUIRE_FALSE(there);
  CHECK(there.error().code == ErrorCode::kCompileFailed);
  CHECK(there.error().message == here.error().message);
  CHECK(pool->counters().lost == 0);
  CHECK(pool->pids().size() == 1);
  registry::CompileUnit unknown = scale_unit();
  unknown.target = {1, 0, TargetSuffix::kBase};
  CHECK(compile(*pool, unknown).error().code == ErrorCode::kUnsupportedTarget);
}

TEST_CASE("A worker that is killed in the middle of a compile is replaced, and the compile works") {
  for (const int signal : {SIGKILL, SIGABRT}) {
    const auto pool = start_pool(staying());
    const pid_t first = only_pid(*pool);
    auto compiled = compile_aside(*pool, slow_unit());
    REQUIRE(comes_to_compile(first));
    REQUIRE(::kill(first, signal) == 0);
    CHECK(compiled.get());
    CHECK(test::is_gone(first));
    CHECK(pool->counters().started == 2);
    CHECK(pool->counters().lost == 1);
  }
  CHECK_FALSE(test::has_children());
}

TEST_CASE("A worker that stops is killed after the time limit, and the compile works") {
  WorkerPoolOptions options = staying();
  options.compile_timeout = milliseconds(10'000);
  const auto pool = start_pool(options);
  const pid_t first = only_pid(*pool);
  REQUIRE(::kill(first, SIGSTOP) == 0);
  require_compiles(*pool);
  CHECK(test::is_gone(first));
  CHECK(pool->counters().lost == 1);
}

TEST_CASE("Two workers lost over one kernel is an error that names both ends; the next works") {
  const test::TempDir temporary;
  const char* const before_dir = std::getenv("TMPDIR");
  const std::string restored = before_dir == nullptr ? "/tmp" : before_dir;
  ::setenv("TMPDIR", temporary.str().c_str(), 1);
  const std::size_t descriptors = test::open_descriptors();
  {
    const auto pool = start_pool(staying());
    const pid_t first = only_pid(*pool);
    auto compiled = compile_aside(*pool, slow_unit(7));
    REQUIRE(comes_to_compile(first));
    REQUIRE(::kill(first, SIGSEGV) == 0);
    const pid_t second = only_pid(*pool, first);
    REQUIRE(comes_to_compile(second));
    REQUIRE(::kill(second, SIGKILL) == 0);
    const auto lost = compiled.get();
    REQUIRE_FALSE(lost);
    CHECK(lost.error().code == ErrorCode::kCompilerLost);
    CHECK(contains(lost.error().message, "slow_op number=7"));
    CHECK(contains(lost.error().message, "was killed by SIGSEGV (11)"));
    CHECK(contains(lost.error().message, "was killed by SIGKILL (9)"));
    CHECK(contains(lost.error().message, "EngineOptions::compile_timeout"));
    CHECK(pool->pids().empty());
    CHECK_FALSE(test::has_children());
    require_compiles(*pool);
    CHECK(pool->counters().lost == 2);
  }
  ::setenv("TMPDIR", restored.c_str(), 1);
  CHECK_FALSE(test::has_children());
  CHECK(test::open_descriptors() == descriptors);
  CHECK(std::filesystem::is_empty(temporary.path()));
}

TEST_CASE("A source that crashes NVRTC itself costs two workers, and this process nothing") {
  const auto pool = start_pool(staying());
  // NVRTC 13.0 dies of SIGSEGV over it. One that does not has to say what is wrong.
  const auto result =
      compile(*pool, test::make_unit("template <int N> __global__ void scale( {", "scale<3>"));
  REQUIRE_FALSE(result);
  const bool crashed = result.error().code == ErrorCode::kCompilerLost;
  CHECK((crashed || result.error().code == ErrorCode::kCompileFailed));
  CHECK(pool->counters().lost == (crashed ? 2 : 0));
  require_compiles(*pool);
}

TEST_CASE("A compile that takes too long is given up after two limits") {
  WorkerPoolOptions options = staying();
  options.compile_timeout = milliseconds(500);
  const auto pool = start_pool(options);
  const auto lost = compile(*pool, slow_unit());
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == ErrorCode::kCompilerLost);
  CHECK(contains(lost.error().message, "did not answer within 0.5 s"));
  CHECK(pool->counters().lost == 2);
  CHECK_FALSE(test::has_children());
}

TEST_CASE("A worker is replaced after its number of compiles") {
  WorkerPoolOptions options = staying();
  options.recycle_after = 2;
  const auto pool = start_pool(options);
  const pid_t first = only_pid(*pool);
  require_compiles(*pool);
  CHECK(only_pid(*pool) == first);
  require_compiles(*pool);
  CHECK(test::is_gone(first));
  CHECK(pool->pids().empty());
  require_compiles(*pool);
  CHECK(pool->counters().started == 2);
  CHECK(pool->counters().lost == 0);
}

TEST_CASE("An idle worker stops after the linger time, and another starts on demand") {
  WorkerPoolOptions options = staying();
  options.linger = milliseconds(50);
  const auto pool = start_pool(options);
  for (const int round : {0, 1}) {
    CAPTURE(round);
    CHECK(comes_true([&] { return pool->pids().empty() && !test::has_children(); }));
    require_compiles(*pool);
  }
  CHECK(pool->counters().lost == 0);
}

TEST_CASE("A worker that dies while it is idle is not a loss") {
  const auto pool = start_pool(staying());
  const pid_t first = only_pid(*pool);
  REQUIRE(::kill(first, SIGKILL) == 0);
  // With all its threads: until then its socket is open, and it counts as alive.
  REQUIRE(comes_true([&] {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(first), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == first;
  }));
  require_compiles(*pool);
  CHECK(pool->counters().lost == 0);
  CHECK(pool->counters().started == 2);
}

TEST_CASE("A worker lives on when the thread ends that had it started") {
  std::unique_ptr<WorkerPool> pool;
  std::thread([&pool] { pool = start_pool(staying()); }).join();
  const pid_t first = only_pid(*pool);
  require_compiles(*pool);
  REQUIRE(::kill(first, SIGKILL) == 0);
  std::thread([&pool, first] {
    require_compiles(*pool);
    only_pid(*pool, first);
  }).join();
  const pid_t second = only_pid(*pool);
  require_compiles(*pool);
  CHECK(only_pid(*pool) == second);
}

TEST_CASE("Ctrl-C does not reach a worker's work") {
  const auto pool = start_pool(staying());
  const pid_t pid = only_pid(*pool);
  auto compiled = compile_aside(*pool, slow_unit());
  REQUIRE(comes_to_compile(pid));
  REQUIRE(::kill(pid, SIGINT) == 0);
  CHECK(compiled.get());
  CHECK(only_pid(*pool) == pid);
}

TEST_CASE("cancel ends the compiles in flight and refuses later ones") {
  const auto pool = start_pool(staying());
  const pid_t pid = only_pid(*pool);
  auto running = compile_aside(*pool, slow_unit(1));
  REQUIRE(comes_to_compile(pid));
  auto waiting = compile_aside(*pool, slow_unit(2));
  pool->cancel();
  for (auto* compiled : {&running, &waiting}) {
    const auto result = compiled->get();
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::kCancelled);
    CHECK(contains(result.error().message, "cancelled"));
  }
  const auto later = compile(*pool, scale_unit());
  REQUIRE_FALSE(later);
  CHECK(contains(later.error().message, "cancelled"));
  CHECK(pool->pids().empty());
  CHECK(pool->counters().lost == 0);
  CHECK_FALSE(test::has_children());
  pool->resume();
  CHECK(compile(*pool, scale_unit()));
}

TEST_CASE("A pool that ends in the middle of a compile leaves no process") {
  std::future<Result<CompiledProgram>> compiled;
  pid_t pid = 0;
  {
    const auto pool = start_pool(staying());
    pid = only_pid(*pool);
    compiled = compile_aside(*pool, slow_unit());
    REQUIRE(comes_to_compile(pid));
  }
  CHECK_FALSE(compiled.get());
  CHECK(test::is_gone(pid));
  CHECK_FALSE(test::has_children());
}

TEST_CASE("All works where SIGCHLD is ignored, so that no status can be had") {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  {
    const auto pool = start_pool(staying());
    const pid_t first = only_pid(*pool);
    auto compiled = compile_aside(*pool, slow_unit());
    REQUIRE(comes_to_compile(first));
    REQUIRE(::kill(first, SIGKILL) == 0);
    CHECK(compiled.get());
    CHECK(pool->counters().lost == 1);
  }
  std::signal(SIGCHLD, before);
}

TEST_CASE("All works where another thread waits for every child") {
  std::atomic<bool> stop = false;
  std::thread reaper([&stop] {
    while (!stop) {
      ::waitpid(-1, nullptr, WNOHANG);
      std::this_thread::yield();
    }
  });
  {
    const auto pool = start_pool(staying());
    const pid_t first = only_pid(*pool);
    auto compiled = compile_aside(*pool, slow_unit());
    const bool compiling = comes_to_compile(first);
    CHECK(compiling);
    ::kill(first, SIGKILL);
    CHECK(compiled.get());
    CHECK(pool->counters().lost == 1);
  }
  stop = true;
  reaper.join();
}

TEST_CASE("A process forked off has workers of its own and leaves the parent's alone") {
  auto pool = start_pool(staying());
  const pid_t parents = only_pid(*pool);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool own = compile(*pool, scale_unit()).has_value() && pool->pids().size() == 1 &&
                     pool->pids().front() != parents;
    pool.reset();
    ::_exit(own && !test::has_children() ? 0 : 1);
  }
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  require_compiles(*pool);
  CHECK(only_pid(*pool) == parents);
  CHECK(pool->counters().started == 1);
}

TEST_CASE("A worker has nothing of its engine but the socket") {
  const int kept = ::dup(STDOUT_FILENO);  // Not close-on-exec.
  const auto pool = start_pool(staying());
  require_compiles(*pool);
  const std::string fds = "/proc/" + std::to_string(only_pid(*pool)) + "/fd";
  std::size_t sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fds)) {
    const std::string target = std::filesystem::read_symlink(entry.path()).string();
    CAPTURE(entry.path().string(), target);
    sockets += contains(target, "socket:") ? 1U : 0U;
    CHECK((target == "/dev/null" || contains(target, "socket:")));
  }
  CHECK(sockets == 1);
  ::close(kept);
}

}  // namespace
}  // namespace kiln::runtime
