#include <cstring>
#include <thread>

#include "tests/c_api/machine.hpp"

namespace kiln::test {
namespace {

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string message() {
  return kiln_last_error_message();
}

}  // namespace

TEST_CASE("Named arguments come in any order, and an op described in C packs its parameters") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  REQUIRE(kiln_launch(engine, "c_scale", machine.args, 4, nullptr, nullptr) == KILN_OK);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].grid[0] == 2);
  CHECK(launches[0].block[0] == 128);
  CHECK(launches[0].attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) != nullptr);
  REQUIRE(launches[0].params.size() == 6);
  CHECK(launches[0].params[0] == bytes_of(std::uint64_t{0x10000}));
  CHECK(launches[0].params[1] == bytes_of(std::int64_t{128}));
  CHECK(launches[0].params[2] == bytes_of(std::uint64_t{0x20000}));
  CHECK(launches[0].params[3] == bytes_of(1.5F));
  CHECK(launches[0].params[4] == bytes_of(std::uint64_t{0x30000000}));
  CHECK(launches[0].params[5] == bytes_of(std::int32_t{7}));
  kiln_engine_destroy(engine);
}

TEST_CASE("Arguments without names come in the op's order") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  const kiln_arg args[] = {kiln_tensor(nullptr, &machine.x.dlpack()),
                           kiln_tensor(nullptr, nullptr),  // Optional, and left out.
                           kiln_integer(nullptr, 3), kiln_tensor(nullptr, &machine.out.dlpack())};
  REQUIRE(kiln_launch(engine, "c_scale", args, 4, nullptr, nullptr) == KILN_OK);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].params[2] == bytes_of(std::uint64_t{0}));
  CHECK(launches[0].params[3] == bytes_of(3.0F));
  kiln_engine_destroy(engine);
}

TEST_CASE("A plan takes its arguments in the order that it was made with") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  kiln_plan* plan = nullptr;
  REQUIRE(kiln_plan_create(engine, "c_scale", machine.args, 4, &plan) == KILN_OK);
  CHECK(machine.fake().launches().empty());
  Tensor other(address(0x40000000), DType::kF32, {3, 64});
  machine.args[0] = kiln_tensor(nullptr, &other.dlpack());
  machine.args[1].value.real = 2.5;
  kiln_launch_options options = KILN_INIT(kiln_launch_options);
  options.pdl = KILN_OFF;
  REQUIRE(kiln_plan_launch(plan, machine.args, 4, nullptr, &options) == KILN_OK);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].params[3] == bytes_of(2.5F));
  CHECK(launches[0].params[4] == bytes_of(std::uint64_t{0x40000000}));
  CHECK(launches[0].attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) == nullptr);
  CHECK(kiln_plan_launch(plan, machine.args, 3, nullptr, nullptr) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(message(), "4 arguments"));
  kiln_plan_destroy(plan);
  kiln_engine_destroy(engine);
}

TEST_CASE("Arguments that cannot be meant are refused, and the message says which") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  const auto launch = [&](const char* op, std::size_t count) {
    return kiln_launch(engine, op, machine.args, count, nullptr, nullptr);
  };
  CHECK(launch("c_scal", 4) == KILN_ERROR_UNKNOWN_OP);
  CHECK(contains(message(), "c_scale"));
  CHECK(launch("c_scale", 3) == KILN_OK);  // Without the optional bias.
  CHECK(launch("c_scale", 2) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(message(), "\"x\""));
  machine.args[3].name = "weight";
  CHECK(launch("c_scale", 4) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(message(), "x, bias, factor, out"));
  machine.args[3].name = "x";
  CHECK(launch("c_scale", 4) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(message(), "twice"));
  machine.args[3].name = nullptr;
  CHECK(launch("c_scale", 4) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(message(), "no name"));
  machine.args[3].name = "bias";
  machine.args[3].kind = 77;
  CHECK(launch("c_scale", 4) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(message(), "77"));
  kiln_engine_destroy(engine);
}

TEST_CASE("A plan that outlives its engine is no longer loaded, and needs nothing of it") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  kiln_plan* plan = nullptr;
  REQUIRE(kiln_plan_create(engine, "c_scale", machine.args, 4, &plan) == KILN_OK);
  kiln_engine_destroy(engine);
  size_t bytes = 1;
  CHECK(kiln_plan_workspace_bytes(plan, &bytes) == KILN_OK);
  CHECK(bytes == 0);
  CHECK(kiln_plan_launch(plan, machine.args, 4, nullptr, nullptr) == KILN_ERROR_NOT_LOADED);
  CHECK(contains(message(), "c_scale: this plan's engine was destroyed"));
  CHECK(kiln_plan_launch(plan, machine.args, 3, nullptr, nullptr) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(message(), "c_scale: the plan was made with 4 arguments"));
  kiln_plan_destroy(plan);
}

TEST_CASE("Null where something must be is refused by every function") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  kiln_engine* const none = nullptr;
  size_t size = 0;
  int32_t flag = 0;
  kiln_counters counters = KILN_INIT(kiln_counters);
  kiln_plan* plan = nullptr;
  kiln_prefetch* prefetch = nullptr;
  const kiln_arg* const args = machine.args;
  for (const kiln_status status : {kiln_engine_create(nullptr, nullptr),
                                   kiln_launch(none, "c_scale", args, 4, nullptr, nullptr),
                                   kiln_launch(engine, nullptr, args, 4, nullptr, nullptr),
                                   kiln_launch(engine, "c_scale", nullptr, 4, nullptr, nullptr),
                                   kiln_workspace_bytes(engine, "c_scale", args, 4, nullptr),
                                   kiln_workspace_bytes(none, "c_scale", args, 4, &size),
                                   kiln_can_use(engine, "c_scale", args, 4, nullptr, nullptr),
                                   kiln_can_use(none, "c_scale", args, 4, &flag, nullptr),
                                   kiln_plan_create(engine, "c_scale", args, 4, nullptr),
                                   kiln_plan_create(none, "c_scale", args, 4, &plan),
                                   kiln_plan_launch(nullptr, args, 4, nullptr, nullptr),
                                   kiln_plan_workspace_bytes(nullptr, &size),
                                   kiln_warmup(engine, nullptr, nullptr),
                                   kiln_prebuild(engine, nullptr, nullptr),
                                   kiln_prefetch_start(engine, "c_scale", args, 4, nullptr),
                                   kiln_prefetch_start(none, "c_scale", args, 4, &prefetch),
                                   kiln_prefetch_poll(nullptr, &flag),
                                   kiln_prefetch_wait(nullptr, 0, &flag),
                                   kiln_forget_compile_failures(none),
                                   kiln_unload(none, nullptr, 0, nullptr),
                                   kiln_unload(engine, nullptr, 1, nullptr),
                                   kiln_engine_counters(engine, nullptr),
                                   kiln_engine_counters(none, &counters),
                                   kiln_cache_layer_count(engine, nullptr),
                                   kiln_cache_layer_at(engine, 0, nullptr),
                                   kiln_cache_layer_at(none, 0, nullptr),
                                   kiln_device_targets(engine, nullptr),
                                   kiln_device_targets(none, nullptr),
                                   kiln_op_count(engine, nullptr),
                                   kiln_op_at(engine, 0, nullptr),
                                   kiln_op_by_name(engine, nullptr, nullptr),
                                   kiln_op_arg_at(engine, "c_scale", 0, nullptr),
                                   kiln_register_op(engine, nullptr)}) {
    CHECK(status == KILN_ERROR_INVALID_ARGUMENT);
    CHECK(contains(message(), "NULL"));
  }
  kiln_engine_destroy(nullptr);
  kiln_plan_destroy(nullptr);
  kiln_prefetch_destroy(nullptr);
  kiln_engine_destroy(engine);
}

TEST_CASE("The message is this thread's last failure, whatever other threads do") {
  CHECK(kiln_engine_create(nullptr, nullptr) == KILN_ERROR_INVALID_ARGUMENT);
  const std::string mine = message();
  std::thread([] {
    CHECK(message().empty());
    kiln_warmup(nullptr, nullptr, nullptr);
  }).join();
  CHECK(message() == mine);
  CHECK(std::string(kiln_status_name(KILN_OK)) == "ok");
  CHECK(std::string(kiln_status_name(-5)) == "unknown");
}

TEST_CASE("A bad call is an answer of can_use, with its reason") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  int32_t usable = -1;
  const char* reason = nullptr;
  REQUIRE(kiln_can_use(engine, "c_scale", machine.args, 4, &usable, &reason) == KILN_OK);
  CHECK(usable == 1);
  CHECK(std::string(reason).empty());
  const Tensor small(address(0x20000), DType::kF32, {63});
  machine.args[3].value.tensor = &small.dlpack();
  REQUIRE(kiln_can_use(engine, "c_scale", machine.args, 4, &usable, &reason) == KILN_OK);
  CHECK(usable == 0);
  CHECK(contains(reason, "bias"));
  kiln_engine_destroy(engine);
}

TEST_CASE("A warm-up makes ready what it can, and tells the rest") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  const kiln_call calls[] = {{"c_scale", machine.args, 4}, {"c_scale", machine.args, 2}};
  kiln_warmup_request request = KILN_INIT(kiln_warmup_request);
  request.calls = calls;
  request.call_count = 2;
  std::string told;
  request.user = &told;
  request.failed = [](const char* name, kiln_status, const char*, void* user) {
    *static_cast<std::string*>(user) += name;
  };
  kiln_warmup_report report = KILN_INIT(kiln_warmup_report);
  CHECK(kiln_warmup(engine, &request, &report) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(told == "c_scale");
  CHECK(report.prepared == 1);
  CHECK(report.failed == 1);
  CHECK(report.loaded == 1);
  request.call_count = 1;
  CHECK(kiln_warmup(engine, &request, nullptr) == KILN_OK);
  kiln_engine_destroy(engine);
}

TEST_CASE("What is reserved in a request must be zero") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  kiln_warmup_request warmup = KILN_INIT(kiln_warmup_request);
  warmup.reserved = 1;
  CHECK(kiln_warmup(engine, &warmup, nullptr) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(kiln_last_error_message(), "request->reserved must be zero"));
  kiln_prebuild_request prebuild = KILN_INIT(kiln_prebuild_request);
  prebuild.reserved = 1;
  CHECK(kiln_prebuild(engine, &prebuild, nullptr) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(kiln_last_error_message(), "request->reserved must be zero"));
  kiln_engine_destroy(engine);
}

TEST_CASE("A warm-up that is stopped is cancelled, and what was made ready stays so") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  const kiln_call calls[] = {{"c_scale", machine.args, 4}, {"c_scale", machine.args, 3}};
  kiln_warmup_request request = KILN_INIT(kiln_warmup_request);
  request.calls = calls;
  request.call_count = 2;
  int asked = 0;
  request.user = &asked;
  request.stop = [](void* user) -> int32_t {
    ++*static_cast<int*>(user);
    return 1;
  };
  kiln_warmup_report report = KILN_INIT(kiln_warmup_report);
  CHECK(kiln_warmup(engine, &request, &report) == KILN_ERROR_CANCELLED);
  CHECK(contains(message(), "stopped after 1 of 2"));
  CHECK(asked == 1);
  CHECK(report.prepared == 0);
  CHECK(kiln_launch(engine, "c_scale", machine.args, 4, nullptr, nullptr) == KILN_OK);
  kiln_engine_destroy(engine);
}

TEST_CASE("A prefetch that fails says so when it is waited for") {
  CMachine machine;
  kiln_engine_options options = machine.options();
  options.jit = KILN_JIT_FORBID;
  const std::string empty = machine.dir().str("empty");
  options.cache_root = empty.c_str();
  kiln_engine* const engine = machine.engine(options);
  kiln_prefetch* prefetch = nullptr;
  REQUIRE(kiln_prefetch_start(engine, "c_scale", machine.args, 4, &prefetch) == KILN_OK);
  int32_t ready = 0;
  CHECK(kiln_prefetch_wait(prefetch, -1, &ready) == KILN_ERROR_COMPILE_FORBIDDEN);
  CHECK(ready == 1);
  CHECK(kiln_prefetch_poll(prefetch, &ready) == KILN_OK);
  CHECK(ready == 1);
  kiln_engine_destroy(engine);
  CHECK(kiln_prefetch_wait(prefetch, INT64_MAX, nullptr) == KILN_ERROR_COMPILE_FORBIDDEN);
  kiln_prefetch_destroy(prefetch);
}

TEST_CASE("Each launch option reaches the driver") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  kiln_launch_options options = KILN_INIT(kiln_launch_options);
  options.serialize = KILN_ON;
  options.has_priority = 1;
  options.priority = -3;
  options.memory_sync_domain = KILN_SYNC_DOMAIN_REMOTE;
  REQUIRE(kiln_launch(engine, "c_scale", machine.args, 4, nullptr, &options) == KILN_OK);
  const fake::Launch launch = machine.fake().launches().at(0);
  CHECK(launch.attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) == nullptr);
  const CUlaunchAttribute* const priority = launch.attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY);
  REQUIRE(priority != nullptr);
  CHECK(priority->value.priority == -3);
  const CUlaunchAttribute* const domain = launch.attribute(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);
  REQUIRE(domain != nullptr);
  CHECK(domain->value.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
  options.memory_sync_domain = 2;
  CHECK(kiln_launch(engine, "c_scale", machine.args, 4, nullptr, &options) ==
        KILN_ERROR_INVALID_ARGUMENT);
  kiln_engine_destroy(engine);
}

TEST_CASE("After an unload a plan says so, and a launch loads again") {
  CMachine machine;
  kiln_engine* const engine = machine.engine();
  kiln_plan* plan = nullptr;
  REQUIRE(kiln_plan_create(engine, "c_scale", machine.args, 4, &plan) == KILN_OK);
  size_t unloaded = 0;
  REQUIRE(kiln_unload(engine, nullptr, 0, &unloaded) == KILN_OK);
  CHECK(unloaded == 1);
  CHECK(kiln_plan_launch(plan, machine.args, 4, nullptr, nullptr) == KILN_ERROR_NOT_LOADED);
  CHECK(kiln_launch(engine, "c_scale", machine.args, 4, nullptr, nullptr) == KILN_OK);
  kiln_plan_destroy(plan);
  kiln_engine_destroy(engine);
}

TEST_CASE("A miss while a stream is captured is an error where that is asked for") {
  CMachine machine;
  CUcontext context = machine.enter();
  kiln_engine_options options = machine.options();
  options.capture_misses = KILN_CAPTURE_MISSES_ERROR;
  kiln_engine* const engine = machine.engine(options);
  const CUstream stream = machine.fake().make_stream(context);
  machine.fake().set_capturing(stream, true);
  CHECK(kiln_launch(engine, "c_scale", machine.args, 4, stream, nullptr) == KILN_ERROR_NOT_LOADED);
  kiln_engine_destroy(engine);
}

TEST_CASE("Log lines go to the callback, with the level and the user's pointer") {
  CMachine machine;
  struct Seen {
    int lines = 0;
    int lowest = 99;
  } seen;
  kiln_engine_options options = machine.options();
  options.log_level = KILN_LOG_DEBUG;
  options.log_user = &seen;
  options.log = [](int32_t level, const char* line, void* user) {
    auto& into = *static_cast<Seen*>(user);
    into.lines += std::strlen(line) > 0 ? 1 : 0;
    into.lowest = std::min(into.lowest, static_cast<int>(level));
  };
  options.cache_root = "/dev/null/none";
  kiln_engine* const engine = machine.engine(options);
  kiln_launch(engine, "c_scale", machine.args, 4, nullptr, nullptr);
  kiln_engine_destroy(engine);
  CHECK(seen.lines > 0);
  CHECK(seen.lowest >= KILN_LOG_DEBUG);
}

TEST_CASE("An engine option that is no value of its kind is refused") {
  kiln_engine* engine = nullptr;
  kiln_engine_options options = KILN_INIT(kiln_engine_options);
  options.jit = 9;
  CHECK(kiln_engine_create(&options, &engine) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(message(), "jit"));
  options.jit = KILN_JIT_DEFAULT;
  options.pdl = -1;
  CHECK(kiln_engine_create(&options, &engine) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(message(), "pdl"));
  options.pdl = KILN_DEFAULT;
  options.cache_root = "";
  CHECK(kiln_engine_create(&options, &engine) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(message(), "cache_root"));
  options.cache_root = nullptr;
  options.struct_size = 0;
  CHECK(kiln_engine_create(&options, &engine) == KILN_ERROR_INVALID_ARGUMENT);
  CHECK(contains(message(), "struct_size"));
  CHECK(engine == nullptr);
}

}  // namespace kiln::test
