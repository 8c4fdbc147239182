#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {
namespace {

constexpr CUlaunchAttributeID kPdl = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;

fake::Launch only_launch(Machine& machine) {
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 1);
  return launches.front();
}

}  // namespace

TEST_CASE("A launch packs every kind of parameter as the kernel's signature says") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall call(3, 64);
  call.launch(engine);
  const fake::Launch launch = only_launch(machine);
  REQUIRE(launch.params.size() == 8);
  CHECK(launch.params[0] == bytes_of(std::uint64_t{0x10000}));
  CHECK(launch.params[1] == bytes_of(std::int64_t{128}));
  CHECK(launch.params[2] == bytes_of(std::uint64_t{0x20000}));
  CHECK(launch.params[3] == bytes_of(1.5F));
  CHECK(launch.params[4] == bytes_of(std::uint64_t{0x30000000}));
  CHECK(launch.params[5] == bytes_of(std::int32_t{3}));
  CHECK(launch.params[6] == bytes_of(std::int64_t{64}));
  CHECK(launch.params[7] == bytes_of(true));
  CHECK(launch.context == machine.context);
}

TEST_CASE("A plan launches as its op does, with pointers, strides and scalars of each call") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const Tensor x(nullptr, DType::kF32, {3, 64}, {128, 1});  // Shapes only.
  const Tensor bias(nullptr, DType::kF32, {64});
  const Tensor out(nullptr, DType::kF32, {3, 64});
  const Plan plan = engine.plan("scale", {x, bias, 1.0, out});
  CHECK(plan.workspace_bytes() == 0);
  CHECK(machine.fake().launches().empty());
  ScaleCall call(3, 64);
  call.factor = 7;
  call.launch(engine);
  CHECK(engine.counters().libraries_loaded == 1);
  const fake::Launch by_op = only_launch(machine);
  machine.fake().forget_calls();
  plan.launch({call.x, call.bias, call.factor, call.out}, nullptr);
  const fake::Launch by_plan = only_launch(machine);
  CHECK(by_plan.params == by_op.params);
  CHECK(by_plan.symbol == by_op.symbol);
  CHECK(by_plan.attributes.size() == by_op.attributes.size());

  CHECK(contains(error_of(ErrorCode::kInvalidArgument, [&] { plan.launch({call.x}, nullptr); }),
                 "4 arguments"));
  const Tensor wrong(nullptr, DType::kF32, {4, 64});
  CHECK(contains(error_of(ErrorCode::kInvalidArgument,
                          [&] {
                            engine.plan("scale", {x, bias, 1.0, wrong});
                          }),
                 "out"));
}

TEST_CASE("In the checking mode a plan refuses arguments that it was not made for") {
  ScaleMachine machine;
  EngineOptions options = machine.options();
  options.check = true;
  Engine engine = machine.engine(options);
  const ScaleCall call(3, 64);
  const ScaleCall other(2, 64);
  const Plan plan = engine.plan("scale", {call.x, call.bias, 1.0, call.out});
  CHECK(contains(error_of(ErrorCode::kInvalidArgument,
                          [&] {
                            plan.launch({other.x, other.bias, 1.0, other.out}, nullptr);
                          }),
                 "other shapes"));
  CHECK(contains(error_of(ErrorCode::kInvalidArgument,
                          [&] {
                            plan.launch({call.x, call.bias, 1.0, other.out}, nullptr);
                          }),
                 "out"));
  CHECK(machine.fake().launches().empty());
}

TEST_CASE("A computed parameter follows from the shapes, and from which scalars are there") {
  Machine machine;
  const CUcontext context = machine.enter();
  Op op = scale_op("computed");
  ArgSpec block = scalar_arg("block", ScalarType::kI64);
  block.optional = true;
  op.args.push_back(block);
  op.kernels[0].params[6] = Param::computed("2*n or n", [](const Problem& problem) {
    return (problem.present("block") ? 2 : 1) * problem.dim("n");
  });
  op.kernels[0].params.push_back(Param::scalar("block"));
  machine.fake().describe_kernel("scale_symbol", {8, 8, 8, 4, 8, 4, 8, 1, 8});
  Engine planter(machine.options());
  planter.register_op(op);
  plant(planter, "computed", "sm_90", machine.cache_root(), {});
  Engine engine(machine.options());
  engine.register_op(op);
  const ScaleCall call(3, 64);
  engine.launch("computed", {call.x, call.bias, 1.0, call.out, Arg()}, nullptr);
  engine.launch("computed", {call.x, call.bias, 1.0, call.out, 5}, nullptr);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].params[6] == bytes_of(std::int64_t{64}));
  CHECK(launches[0].params[8] == bytes_of(std::int64_t{0}));
  CHECK(launches[1].params[6] == bytes_of(std::int64_t{128}));
  CHECK(launches[1].params[8] == bytes_of(std::int64_t{5}));
  CHECK(launches[1].context == context);
}

TEST_CASE("A kernel takes any number of parameters up to 64, each where it belongs") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const Tensor x(address(0x10000), DType::kF32, {3});
  for (const std::size_t count : {1U, 7U, 8U, 9U, 16U, 63U, 64U}) {
    CAPTURE(count);
    Op op;
    op.name = "wide_" + std::to_string(count);
    op.args = {tensor_arg("x", DType::kF32, {"n"}, Access::kWrite)};
    KernelSpec kernel;
    kernel.name = "wide" + std::to_string(count);
    kernel.source = "wide.cu";
    kernel.instantiation = kernel.name + "<0>";
    kernel.params.assign(count - 1, Param::dim("n"));
    kernel.params.push_back(Param::data("x"));
    kernel.geometry = [](const Problem&, const Traits&) { return Geometry{}; };
    op.kernels = {kernel};
    op.sources = {{"wide.cu", "template <int> __global__ void " + kernel.name + "() {}\n"}};
    engine.register_op(op);
    plant(engine, op.name.c_str(), "sm_90", machine.cache_root());
    machine.fake().describe_kernel(kernel.name + "_symbol", std::vector<std::size_t>(count, 8));
    machine.fake().forget_calls();
    engine.launch(op.name.c_str(), {x}, nullptr);
    const std::vector<std::string> params = only_launch(machine).params;
    REQUIRE(params.size() == count);
    CHECK(std::all_of(params.begin(), params.end() - 1,
                      [](const std::string& bytes) { return bytes == bytes_of(std::int64_t{3}); }));
    CHECK(params.back() == bytes_of(std::uint64_t{0x10000}));
  }
}

TEST_CASE("Pointers, strides, scalars and byte offsets are those of each call, not of the first") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall(3, 64).launch(engine);
  machine.fake().forget_calls();

  ScaleCall second(3, 64);
  DLTensor x = second.x.dlpack();
  std::int64_t strides[] = {512, 1};
  x.data = address(0x50000);
  x.byte_offset = 32;
  x.strides = strides;
  engine.launch("scale", {x, second.bias, 7, second.out}, nullptr, {.constants_ready = false});
  const fake::Launch launch = only_launch(machine);
  CHECK(launch.params[0] == bytes_of(std::uint64_t{0x50020}));
  CHECK(launch.params[1] == bytes_of(std::int64_t{512}));
  CHECK(launch.params[3] == bytes_of(7.0F));
  CHECK(launch.params[7] == bytes_of(false));
}

TEST_CASE("A tensor without strides is packed, and its row stride is worked out") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  const ScaleCall call(3, 64);
  DLTensor x = call.x.dlpack();
  x.strides = nullptr;
  engine.launch("scale", {x, call.bias, 1.0, call.out}, nullptr);
  CHECK(only_launch(machine).params[1] == bytes_of(std::int64_t{64}));
}

TEST_CASE("Shapes choose the traits and the geometry") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall(3).launch(engine);
  ScaleCall(7).launch(engine);
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 2);
  CHECK(contains(launches[0].image, "ROWS=1 PDL=true sm_90 "));
  CHECK(launches[0].grid[0] == 3);
  CHECK(contains(launches[1].image, "ROWS=2 PDL=true sm_90 "));
  CHECK(launches[1].grid[0] == 4);
  CHECK(launches[1].block[0] == 128);
}

TEST_CASE("A warm launch makes one driver call per kernel and no other (field report 129)") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  engine.register_op(two_step_op());
  plant(engine, "two_step", "sm_90", machine.cache_root());
  const ScaleCall call;
  const Tensor x(address(0x10000), DType::kF32, {2, 32});
  const Tensor out(address(0x20000), DType::kF32, {2, 32});
  const LaunchOptions options{.workspace = address(0x40000), .workspace_bytes = 8};
  call.launch(engine);
  engine.launch("two_step", {x, out}, nullptr, options);
  machine.fake().forget_calls();

  call.launch(engine);
  CHECK(machine.fake().calls() == std::vector<std::string>{"cuLaunchKernelEx"});
  machine.fake().forget_calls();
  engine.launch("two_step", {x, out}, nullptr, options);
  CHECK(machine.fake().calls() == std::vector<std::string>{"cuLaunchKernelEx", "cuLaunchKernelEx"});
}

TEST_CASE("The kernels of an op are launched in order on the call's stream") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  engine.register_op(two_step_op());
  plant(engine, "two_step", "sm_90", machine.cache_root());
  machine.fake().describe_kernel("sums_symbol", {8, 8, 8, 8});
  machine.fake().describe_kernel("apply_symbol", {8, 8, 8, 8, 8});
  CUstream stream = machine.fake().make_stream(machine.context);
  const Tensor x(address(0x10000), DType::kF32, {2, 32});
  const Tensor out(address(0x20000), DType::kF32, {2, 32});
  engine.launch("two_step", {x, out}, stream,
                {.workspace = address(0x40000), .workspace_bytes = 8});
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].symbol == "sums_symbol");
  CHECK(launches[1].symbol == "apply_symbol");
  for (const fake::Launch& launch : launches) {
    CHECK(launch.stream == stream);
    CHECK(launch.params[1] == bytes_of(std::uint64_t{0x40000}));
    CHECK(launch.attribute(kPdl) != nullptr);
  }
}

TEST_CASE("m = 0 launches nothing and needs no kernel") {
  ScaleMachine machine;
  std::filesystem::remove_all(machine.cache_root());
  Engine engine = machine.engine();
  ScaleCall(0).launch(engine);
  ScaleCall(0).launch(engine);
  CHECK(machine.fake().count("cuLaunchKernelEx") == 0);
  CHECK(machine.fake().count("cuLibraryLoadData") == 0);
}

TEST_CASE("The PDL attribute is there when trait, device and kernel allow it") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall().launch(engine);
  const fake::Launch launch = only_launch(machine);
  REQUIRE(launch.attributes.size() == 1);
  REQUIRE(launch.attribute(kPdl) != nullptr);
  CHECK(launch.attribute(kPdl)->value.programmaticStreamSerializationAllowed == 1);
  CHECK(contains(launch.image, "PDL=true"));
}

TEST_CASE("The PDL attribute is left out when the call turns it off (field reports 136 and 141)") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall().launch(engine, nullptr, {.pdl = false});
  CHECK(only_launch(machine).attributes.empty());
}

TEST_CASE(
    "A serialized launch waits for its predecessor and keeps PDL between its own kernels "
    "(field report 141)") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  engine.register_op(two_step_op());
  plant(engine, "two_step", "sm_90", machine.cache_root());
  const Tensor x(address(0x10000), DType::kF32, {2, 32});
  const Tensor out(address(0x20000), DType::kF32, {2, 32});
  LaunchOptions options{.workspace = address(0x40000), .workspace_bytes = 8};
  const Plan plan = engine.plan("two_step", {x, out});
  const auto pdl_of_each = [&] {
    std::vector<bool> with;
    for (const fake::Launch& launch : machine.fake().launches()) {
      with.push_back(launch.attribute(kPdl) != nullptr);
    }
    machine.fake().forget_calls();
    return with;
  };
  options.serialize = true;
  engine.launch("two_step", {x, out}, nullptr, options);
  plan.launch({x, out}, nullptr, options);
  CHECK(pdl_of_each() == std::vector<bool>{false, true, false, true});
  options.pdl = false;
  plan.launch({x, out}, nullptr, options);
  CHECK(pdl_of_each() == std::vector<bool>{false, false});
}

TEST_CASE("Priority and memory domain are attributes of the launches that ask for them") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall().launch(engine, nullptr,
                     {.priority = -5, .memory_sync_domain = MemorySyncDomain::kRemote});
  const fake::Launch launch = only_launch(machine);
  CHECK(launch.attributes.size() == 3);
  REQUIRE(launch.attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY) != nullptr);
  CHECK(launch.attribute(CU_LAUNCH_ATTRIBUTE_PRIORITY)->value.priority == -5);
  REQUIRE(launch.attribute(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN) != nullptr);
  CHECK(launch.attribute(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)->value.memSyncDomain ==
        CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
}

TEST_CASE(
    "The PDL attribute is left out when the engine turns PDL off, and so is the trait (field "
    "report 136)") {
  ScaleMachine machine;
  EngineOptions options = machine.options();
  options.pdl = false;
  Engine engine = machine.engine(options);
  ScaleCall().launch(engine);
  const fake::Launch launch = only_launch(machine);
  CHECK(launch.attributes.empty());
  CHECK(contains(launch.image, "PDL=false"));
}

TEST_CASE("The PDL attribute is left out when the kernel's code holds no wait (field report 130)") {
  ScaleMachine machine({.pdl_wait = false});
  Engine engine = machine.engine();
  ScaleCall().launch(engine);
  const fake::Launch launch = only_launch(machine);
  CHECK(contains(launch.image, "PDL=true"));
  CHECK(launch.attributes.empty());
}

TEST_CASE("PDL is off on a device below 9.0") {
  Machine machine;
  machine.fake().set_devices({{.name = "Fake L40", .major = 8, .minor = 9}});
  machine.enter();
  Engine engine(machine.options());
  Op op = scale_op();
  op.min_compute_capability = 80;
  op.kernels[0].instantiation = "scale<{ROWS}, {PDL}>";
  engine.register_op(op);
  const Variant variant = engine.variants(engine.op("scale"), parse_target("sm_80")).front();
  publish(machine.cache_root(), planted_entry(variant));
  ScaleCall().launch(engine);
  const fake::Launch launch = only_launch(machine);
  CHECK(contains(launch.image, "PDL=false sm_80"));
  CHECK(launch.attributes.empty());
}

TEST_CASE("A kernel that cannot read its constants late is not launched early over fresh ones") {
  ScaleMachine machine;
  Engine engine(machine.options());
  Op op = scale_op("no_switch");
  op.kernels[0].params.pop_back();
  engine.register_op(op);
  machine.fake().describe_kernel("scale_symbol", {8, 8, 8, 4, 8, 4, 8});
  plant(engine, "no_switch", "sm_90", machine.cache_root(), {.mark = "no switch"});
  ScaleCall().launch(engine, nullptr, {}, "no_switch");
  ScaleCall().launch(engine, nullptr, {.constants_ready = false}, "no_switch");
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].attribute(kPdl) != nullptr);
  CHECK(launches[1].attribute(kPdl) == nullptr);
}

TEST_CASE("Cluster and cooperative launches carry their attributes") {
  ScaleMachine machine;
  Engine engine(machine.options());
  Op op = scale_op();
  op.kernels[0].geometry = [](const Problem&, const Traits&) {
    return Geometry{
        .grid = {32, 1, 1}, .block = {64, 1, 1}, .cluster = {16, 1, 1}, .cooperative = true};
  };
  engine.register_op(op);
  ScaleCall().launch(engine);
  const fake::Launch launch = only_launch(machine);
  CHECK(launch.attributes.size() == 3);
  REQUIRE(launch.attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) != nullptr);
  CHECK(launch.attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)->value.clusterDim.x == 16);
  CHECK(launch.attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)->value.clusterDim.z == 1);
  REQUIRE(launch.attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE) != nullptr);
  CHECK(launch.attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE)->value.cooperative == 1);
  CHECK(machine.fake().function_attribute(
            "scale_symbol", CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) == 1);
}

TEST_CASE(
    "A cooperative grid that is not resident at once is refused with both numbers (field report "
    "142)") {
  ScaleMachine machine;
  machine.fake().set_devices({{.multiprocessors = 78, .blocks_per_multiprocessor = 3}});
  const auto launch_blocks = [&](std::uint32_t blocks, const std::string& name) {
    Engine engine(machine.options());
    Op op = scale_op(name);
    op.kernels[0].geometry = [blocks](const Problem&, const Traits&) {
      return Geometry{.grid = {blocks, 1, 1}, .block = {64, 1, 1}, .cooperative = true};
    };
    engine.register_op(op);
    plant(engine, name, "sm_90", machine.cache_root());
    ScaleCall().launch(engine, nullptr, {}, name.c_str());
  };
  launch_blocks(234, "fits");
  CHECK(machine.fake().launches().size() == 1);
  const std::string message =
      error_of(ErrorCode::kInvalidArgument, [&] { launch_blocks(235, "too_many"); });
  CHECK(contains(message, "235 blocks"));
  CHECK(contains(message, "at most 234"));
  CHECK(contains(message, "too_many"));
  CHECK(machine.fake().launches().size() == 1);
}

TEST_CASE("Dynamic shared memory above 48 KiB is opted in when planned, not when launched") {
  ScaleMachine machine;
  Engine engine(machine.options());
  Op op = scale_op();
  op.kernels[0].geometry = [](const Problem& problem, const Traits&) {
    return Geometry{.grid = {1, 1, 1},
                    .block = {64, 1, 1},
                    .dynamic_shared_bytes = static_cast<std::uint32_t>(problem.dim("n")) * 1024};
  };
  engine.register_op(op);
  const auto limit = [&] {
    return machine.fake().function_attribute("scale_symbol",
                                             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  };
  ScaleCall(3, 48).launch(engine);
  CHECK(limit() == -1);
  ScaleCall(3, 100).launch(engine);
  CHECK(limit() == 232448);
  ScaleCall(3, 64).launch(engine);
  CHECK(limit() == 232448);
  ScaleCall(3, 100).launch(engine);
  CHECK(machine.fake().count("cuFuncSetAttribute") == 1);
  CHECK(machine.fake().launches().back().shared_bytes == 100 * 1024);

  const std::string message =
      error_of(ErrorCode::kInvalidArgument, [&] { ScaleCall(3, 228).launch(engine); });
  CHECK(contains(message, "233472 bytes of shared memory"));
  CHECK(contains(message, "232448"));
}

TEST_CASE("Static shared memory counts towards the 48 KiB, by the driver or by the entry") {
  const bool by_driver = GENERATE(false, true);
  CAPTURE(by_driver);
  // An entry has 0 when the compiler left out its log.
  ScaleMachine machine({.resources = {.shared_bytes = by_driver ? 0 : 40 * 1024}});
  if (by_driver) {
    machine.fake().set_static_shared("scale_symbol", 40 * 1024);
  }
  Engine engine(machine.options());
  Op op = scale_op();
  op.kernels[0].geometry = [](const Problem&, const Traits&) {
    return Geometry{.grid = {1, 1, 1}, .block = {64, 1, 1}, .dynamic_shared_bytes = 16 * 1024};
  };
  engine.register_op(op);
  ScaleCall().launch(engine);
  CHECK(machine.fake().function_attribute(
            "scale_symbol", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 232448 - 40 * 1024);
}

TEST_CASE("Workspace that is missing, small or misaligned is refused, and the size can be asked") {
  ScaleMachine machine;
  Engine engine(machine.options());
  engine.register_op(two_step_op());
  plant(engine, "two_step", "sm_90", machine.cache_root());
  const Tensor x(address(0x10000), DType::kF32, {100, 32});
  const Tensor out(address(0x20000), DType::kF32, {100, 32});
  const std::vector<Arg> args{x, out};
  CHECK(engine.workspace_bytes(engine.op("two_step"), args) == 400);
  const auto refused = [&](void* workspace, std::size_t bytes) {
    return error_of(ErrorCode::kInvalidArgument, [&] {
      engine.launch(engine.op("two_step"), args, nullptr,
                    {.workspace = workspace, .workspace_bytes = bytes});
    });
  };
  CHECK(contains(refused(nullptr, 400), "400 bytes"));
  CHECK(contains(refused(address(0x40000), 399), "workspace_bytes is 399"));
  CHECK(contains(refused(address(0x40010), 400), "0x40010"));
  CHECK(machine.fake().count("cuLaunchKernelEx") == 0);
  engine.launch(engine.op("two_step"), args, nullptr,
                {.workspace = address(0x40000), .workspace_bytes = 400});
  CHECK(machine.fake().count("cuLaunchKernelEx") == 2);
}

TEST_CASE("Loading is eager: library, kernel, function, code, before the first launch") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall().launch(engine);
  const std::vector<std::string> calls = machine.fake().calls();
  std::vector<std::string> loading;
  for (const std::string& call : calls) {
    if (call == "cuLibraryLoadData" || call == "cuLibraryGetKernel" ||
        call == "cuKernelGetFunction" || call == "cuFuncLoad" || call == "cuLaunchKernelEx") {
      loading.push_back(call);
    }
  }
  CHECK(loading == std::vector<std::string>{"cuLibraryLoadData", "cuLibraryGetKernel",
                                            "cuKernelGetFunction", "cuFuncLoad",
                                            "cuLaunchKernelEx"});
}

TEST_CASE("A driver without cuFuncLoad loads and launches all the same") {
  ScaleMachine machine({.toolchain_major = 12});
  machine.fake().set_version(12000);
  Engine engine = machine.engine();
  ScaleCall().launch(engine);
  CHECK(machine.fake().count("cuFuncLoad") == 0);
  CHECK(machine.fake().launches().size() == 1);
}

TEST_CASE("Shapes that share a kernel look it up and load it once") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall(1).launch(engine);
  ScaleCall(2).launch(engine);
  ScaleCall(3, 128).launch(engine);
  CHECK(machine.fake().count("cuLibraryLoadData") == 1);
  CHECK(engine.counters().cache_hits == 1);
}

TEST_CASE("A description that does not match the kernel's signature is refused, not launched") {
  ScaleMachine machine;
  machine.fake().describe_kernel("scale_symbol", {8, 8, 8, 4, 8, 4, 4, 1});
  Engine engine = machine.engine();
  const std::string message =
      error_of(ErrorCode::kInvalidArgument, [&] { ScaleCall().launch(engine); });
  CHECK(contains(message, "parameter 6"));
  CHECK(contains(message, "described one of 8 bytes, found one of 4 bytes"));
  CHECK(machine.fake().launches().empty());

  machine.fake().describe_kernel("scale_symbol", {8, 8, 8, 4, 8, 4, 8, 1, 8});
  CHECK(contains(error_of(ErrorCode::kInvalidArgument, [&] { ScaleCall().launch(engine); }),
                 "described none, found one of 8 bytes"));
}

TEST_CASE("A failed launch names the op, the kernel and the driver's code") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  machine.fake().fail("cuLaunchKernelEx", CUDA_ERROR_ILLEGAL_ADDRESS, 1);
  const std::string message =
      error_of(ErrorCode::kDriverError, [&] { ScaleCall().launch(engine); });
  CHECK(contains(message, "scale, kernel scale: cuLaunchKernelEx failed"));
  CHECK(contains(message, "CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST_CASE("can_use follows the contract, the policy and the device, and throws for none of them") {
  ScaleMachine machine;
  Engine engine(machine.options());
  Op op = scale_op();
  op.policy = [](const Problem& problem) {
    return problem.dim("m") <= 32 ? std::string() : "m is above 32";
  };
  engine.register_op(op);
  Op newer = scale_op("newer");
  newer.min_compute_capability = 100;
  engine.register_op(newer);
  const auto ask = [&](const char* name, const ScaleCall& call) {
    return engine.can_use(name, {call.x, call.bias, call.factor, call.out});
  };
  CHECK(ask("scale", ScaleCall(32)).ok);
  CHECK(contains(ask("scale", ScaleCall(33)).reason, "above 32"));
  CHECK_FALSE(ask("scale", ScaleCall(3, 64, 5)).ok);
  CHECK(contains(ask("newer", ScaleCall(1)).reason, "10.0"));
  ScaleCall(33).launch(engine);  // Policy advises; it does not forbid.
  CHECK(machine.fake().launches().size() == 1);
}

}  // namespace kiln::test
