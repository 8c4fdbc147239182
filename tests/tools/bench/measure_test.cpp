#include "tools/bench/measure.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "tests/runtime/engine/machine.hpp"
#include "tools/bench/probes.hpp"

namespace kiln::tools::bench {
namespace {

using test::contains;
using test::Machine;

constexpr const char* kOp = "mxfp8_quantize";

// A machine whose cache holds the probes and the op, whose kernel writes its outputs.
struct BenchMachine : Machine {
  BenchMachine() {
    Engine engine(options());
    engine.register_op(empty_op());
    engine.register_op(delay_op());
    for (const char* op : {"bench_empty", "bench_delay", kOp}) {
      test::plant(engine, op, "sm_90", cache_root());
    }
    fake().describe_kernel("quantize_symbol", {8, 8, 8, 8, 4, 4});
    fake().on_launch([](const fake::Launch& launch) { write_outputs(launch); });
  }

  static void write_outputs(const fake::Launch& launch) {
    if (launch.symbol != "quantize_symbol") {
      return;
    }
    const auto pointer = [&](std::size_t i) {
      void* address = nullptr;
      std::memcpy(&address, launch.params[i].data(), sizeof(address));
      return address;
    };
    const auto extent = [&](std::size_t i) {
      std::int32_t value = 0;
      std::memcpy(&value, launch.params[i].data(), sizeof(value));
      return static_cast<std::size_t>(value);
    };
    const std::size_t m = extent(4);
    const std::size_t k = extent(5);
    std::memset(pointer(2), 1, m * k);
    std::memset(pointer(3), 2, (m + 127) / 128 * 128 * k / 32);
  }
};

TimedShape shape_of(std::int64_t m) {
  return {"shape", {{"m", m}}};
}

}  // namespace

TEST_CASE(
    "A call is timed over replays of a graph of 100 calls, uploaded before its first launch") {
  BenchMachine machine;
  Engine engine(machine.options());
  Bench bench(engine, {});
  machine.fake().set_event_milliseconds(0.25F);
  machine.fake().forget_calls();
  const Measurement got = bench.measure(find_case(kOp), shape_of(8));
  CHECK(got.error.empty());
  CHECK(got.device_us == 2.5);
  CHECK(got.host_us > 0);
  CHECK(got.bytes == 8 * 5120 * 3 + 128 * 160);
  CHECK(got.sets == 1);
  CHECK(got.floor_us == 0.5);

  const std::vector<std::string> calls = machine.fake().calls();
  const auto first = [&](const char* name) {
    return std::find(calls.begin(), calls.end(), name) - calls.begin();
  };
  const auto begin = calls.begin() + first("cuStreamBeginCapture");
  const auto end = calls.begin() + first("cuStreamEndCapture");
  CHECK(std::count(begin, end, "cuLaunchKernelEx") == 100);
  CHECK(first("cuStreamEndCapture") < first("cuGraphUpload"));
  CHECK(first("cuGraphUpload") < first("cuGraphLaunch"));
  CHECK(machine.fake().count("cuGraphLaunch") == 22);
  CHECK(machine.fake().count("cuEventRecord") == 21);
  // The delay is the last launch before the replays.
  const auto launches = machine.fake().launches();
  CHECK(std::count_if(launches.begin(), launches.end(), [](const fake::Launch& launch) {
          return launch.symbol == "bench_delay_symbol";
        }) == 1);
}

TEST_CASE("Calls that move more than the L2 cache keeps rotate among their sets of tensors") {
  BenchMachine machine;
  Engine engine(machine.options());
  Bench bench(engine, {});
  machine.fake().forget_calls();
  const Measurement got = bench.measure(find_case(kOp), shape_of(2048));
  REQUIRE(got.error.empty());
  REQUIRE(got.sets == 9);  // Of 30.3 MiB.
  std::vector<std::string> x;
  for (const fake::Launch& launch : machine.fake().launches()) {
    if (launch.symbol == "quantize_symbol") {
      x.push_back(launch.params[0]);
    }
  }
  REQUIRE(x.size() > 102);
  for (std::size_t i = 2; i < 102; ++i) {  // After the two that are compared.
    CHECK(x[i] == x[2 + (i - 2) % 9]);
  }
  CHECK(std::set<std::string>(x.begin(), x.end()).size() == 9);
}

TEST_CASE("The empty node is measured with the PDL attribute and without") {
  BenchMachine machine;
  Engine engine(machine.options());
  Bench bench(engine, {});
  CHECK(bench.device() == "Fake H200");
  machine.fake().forget_calls();
  const EmptyNodes nodes = bench.empty_nodes();
  CHECK(std::abs(nodes.pdl_us - 1) < 1e-6);
  std::size_t with_pdl = 0;
  std::size_t all = 0;
  for (const fake::Launch& launch : machine.fake().launches()) {
    if (launch.symbol == "bench_empty_symbol") {
      ++all;
      with_pdl += launch.attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) != nullptr
                      ? 1U
                      : 0U;
    }
  }
  CHECK(all == 202);
  CHECK(with_pdl == 101);
}

TEST_CASE("Nothing is timed when an output is not written") {
  BenchMachine machine;
  machine.fake().on_launch(nullptr);
  Engine engine(machine.options());
  Bench bench(engine, {});
  machine.fake().forget_calls();
  const Measurement got = bench.measure(find_case(kOp), shape_of(8));
  CHECK(contains(got.error, "different outputs"));
  CHECK(machine.fake().count("cuGraphLaunch") == 0);
}

TEST_CASE("A failure while capturing is the row's error, and the next row is measured") {
  BenchMachine machine;
  Engine engine(machine.options());
  Bench bench(engine, {});
  machine.fake().fail("cuGraphInstantiateWithFlags", CUDA_ERROR_OUT_OF_MEMORY, 1);
  CHECK(contains(bench.measure(find_case(kOp), shape_of(8)).error, "cuGraphInstantiate failed"));
  CHECK(machine.fake().count("cuGraphDestroy") == 1);
  CHECK(bench.measure(find_case(kOp), shape_of(8)).error.empty());
}

TEST_CASE("A driver that is too old to time is refused with what it lacks") {
  BenchMachine machine;
  Engine engine(machine.options());
  const auto driver = engine.impl().driver();
  REQUIRE(driver);
  CHECK_NOTHROW(GraphApi(*driver));
  machine.fake().set_version(11030);
  const std::string error =
      test::error_of(ErrorCode::kDriverUnavailable, [&] { GraphApi api(*driver); });
  CHECK(contains(error, "it lacks cuGraphInstantiateWithFlags"));
}

// The fake's kernels write nothing in a process of its own, so every row is refused; the rest of
// the report is as on a GPU.
TEST_CASE("The command reports the empty nodes, and each row that could not be timed") {
  BenchMachine machine;
  const std::string out = machine.dir().str("out.json");
  const std::string svg = machine.dir().str("plot.svg");
  const std::string command =
      "LD_LIBRARY_PATH=" + machine.dir().str() + " KILN_CACHE_DIR=" + machine.cache_root() +
      " KILN_NVRTC=" + machine.dir().str("none") + " " KILN_COMMAND " bench 'mxfp8_*' --json" +
      " --peers " KILN_PEER_TABLE " --plot " + svg + " >" + out + " 2>" + machine.dir().str("err");
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 1);
  const auto report = nlohmann::json::parse(std::ifstream(out));
  CHECK(report["device"] == "Fake H200");
  CHECK(report["empty_node"]["table_plain_us"] == 0.54);
  CHECK(report["empty_node"]["comparable"] == false);
  REQUIRE(report["rows"].size() == find_case(kOp).shapes.size());
  for (const auto& row : report["rows"]) {
    CHECK(contains(row["error"], "different outputs"));
  }
  std::string line;
  std::getline(std::ifstream(svg) >> std::ws, line);
  CHECK(contains(line, "<svg"));
}

}  // namespace kiln::tools::bench
