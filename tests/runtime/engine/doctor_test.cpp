#include "runtime/doctor.hpp"

#include "tests/runtime/engine/compile_support.hpp"

namespace kiln::test {
namespace {

using runtime::DoctorReport;

const DoctorReport::OpRow& row_of(const DoctorReport& report, const std::string& op) {
  for (const DoctorReport::OpRow& row : report.ops) {
    if (row.op == op) {
      return row;
    }
  }
  FAIL("no row for " << op);
  return report.ops.front();
}

}  // namespace

TEST_CASE("The doctor finds the driver, its devices, and that there is no NVRTC") {
  ScaleMachine machine;
  machine.fake().set_devices({{}, {.name = "Fake B200", .major = 10}});
  Engine engine = machine.engine();
  const DoctorReport report = runtime::examine(engine);
  CHECK(report.driver.found);
  CHECK(report.driver.path == machine.options().driver);
  CHECK(report.driver.version == "13.0");
  CHECK(report.driver.minimum_version == "12.0");
  REQUIRE(report.driver.devices.size() == 2);
  CHECK(report.driver.devices[1].name == "Fake B200");
  CHECK(report.driver.devices[1].target == "sm_100a");
  CHECK_FALSE(report.nvrtc.usable);
  CHECK(contains(report.nvrtc.problem, machine.options().nvrtc));
  CHECK(report.cache.root == machine.cache_root());
  CHECK(report.cache.writable);
  CHECK_FALSE(report.ok());  // The built-in ops can be neither loaded nor compiled.
}

TEST_CASE("The doctor says what each op can do on each device, and why") {
  ScaleMachine machine;
  machine.fake().set_devices({{}, {.name = "Fake B200", .major = 10}});
  Engine engine = machine.engine();
  const DoctorReport report = runtime::examine(engine);
  std::vector<DoctorReport::OpRow> rows;
  for (const DoctorReport::OpRow& row : report.ops) {
    if (row.op == "scale") {
      rows.push_back(row);
    }
  }
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].target == "sm_90a");
  CHECK(rows[0].ability == DoctorReport::Ability::kLoadable);
  CHECK(rows[0].variants == 4);
  CHECK(rows[0].cached == 4);
  CHECK(rows[1].target == "sm_100a");
  CHECK(rows[1].ability == DoctorReport::Ability::kNeither);
  CHECK(contains(rows[1].reason, "0 of 4 kernels"));
  CHECK(contains(rows[1].reason, "NVRTC"));
}

TEST_CASE("The doctor on a machine with nothing finds nothing and says so") {
  Machine machine;
  EngineOptions options = machine.options();
  options.driver = machine.dir().str("absent.so");
  Engine engine(options);
  engine.register_op(scale_op());
  const DoctorReport report = runtime::examine(engine);
  CHECK_FALSE(report.driver.found);
  CHECK(contains(report.driver.problem, "absent.so"));
  CHECK(row_of(report, "scale").ability == DoctorReport::Ability::kNeither);
  CHECK_FALSE(report.ok());
}

TEST_CASE("Without a device and NVRTC the doctor still sees what a prebuild left") {
  ScaleMachine machine;
  EngineOptions options = machine.options();
  options.driver = machine.dir().str("absent.so");
  Engine engine = machine.engine(options);
  const DoctorReport::OpRow row = row_of(runtime::examine(engine), "scale");
  CHECK(row.target == "sm_90");
  CHECK(row.ability == DoctorReport::Ability::kLoadable);
}

TEST_CASE("The doctor does not count entries of a later CUDA major than the driver's") {
  ScaleMachine machine;
  machine.fake().set_version(12080);
  Engine engine = machine.engine();
  CHECK(row_of(runtime::examine(engine), "scale").cached == 0);
}

TEST_CASE("The doctor says when a device is too old for an op") {
  Machine machine;
  machine.fake().set_devices({{.name = "Fake V100", .major = 7, .minor = 0}});
  Engine engine(machine.options());
  engine.register_op(scale_op());
  const DoctorReport report = runtime::examine(engine);
  CHECK(row_of(report, "scale").ability == DoctorReport::Ability::kNeither);
  CHECK(contains(row_of(report, "scale").reason, "9.0"));
}

TEST_CASE("Where compiling is forbidden the doctor seeks no NVRTC and misses none") {
  ScaleMachine machine;
  EngineOptions options = machine.options();
  options.jit = JitPolicy::kForbid;
  Engine engine = machine.engine(options);
  const DoctorReport report = runtime::examine(engine);
  CHECK(report.compiling.policy == JitPolicy::kForbid);
  CHECK_FALSE(report.may_compile());
  CHECK(report.nvrtc.problem.empty());
  CHECK(report.compiling.worker.empty());
  CHECK(report.compiling.worker_problem.empty());
  CHECK(row_of(report, "scale").ability == DoctorReport::Ability::kLoadable);
  const DoctorReport::OpRow missing = row_of(report, "rmsnorm");
  CHECK(missing.ability == DoctorReport::Ability::kNeither);
  CHECK(contains(missing.reason, "compiling is forbidden"));
  CHECK(machine.log().lines().empty());
}

TEST_CASE("The doctor says where the compile worker is, or why there is none") {
  Machine machine;
  EngineOptions options = machine.options();
  SECTION("beside the library") {
    Engine engine(options);
    const DoctorReport report = runtime::examine(engine);
    CHECK(contains(report.compiling.worker, "/kiln-compile-worker"));
    CHECK(report.compiling.worker_problem.empty());
  }
  SECTION("named, and not there") {
    options.compile_worker = machine.dir().str("absent-worker");
    Engine engine(options);
    const DoctorReport report = runtime::examine(engine);
    CHECK(report.compiling.worker.empty());
    CHECK(contains(report.compiling.worker_problem, options.compile_worker));
  }
  SECTION("not wanted") {
    options.compile_in_process = true;
    Engine engine(options);
    const DoctorReport report = runtime::examine(engine);
    CHECK(report.compiling.in_process);
    CHECK(report.compiling.worker.empty());
    CHECK(report.compiling.worker_problem.empty());
  }
}

TEST_CASE("The doctor tells a worker that cannot be started from one that can") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  EngineOptions options = machine.options();
  options.compile_worker = "/bin/false";
  Engine engine(options);
  const DoctorReport report = runtime::examine(engine);
  CHECK(report.compiling.worker.empty());
  CHECK_FALSE(report.compiling.worker_problem.empty());
  CHECK(report.nvrtc.usable);  // In this process.
}

TEST_CASE("The doctor changes nothing on disk") {
  Machine machine;
  Engine engine(machine.options());
  runtime::examine(engine);
  CHECK_FALSE(std::filesystem::exists(machine.cache_root()));
}

}  // namespace kiln::test
