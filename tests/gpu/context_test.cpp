// Streams and contexts of every kind that an embedder may have.
#include <array>
#include <string>

#include "tests/gpu/support/add_op.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr int kNumber = 311;

/// A context that an embedder made, current on this thread while it lives. What was loaded into it
/// stays in the process's table, so it is left to the end of the process.
class OwnContext {
 public:
  OwnContext() {
    // Of this version, since its signature differs between toolkits.
    const auto create =
        reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(symbol("cuCtxCreate_v2"));
    check("cuCtxCreate", create(&context_, 0, 0));
  }
  ~OwnContext() { Gpu::instance().context.make_current(); }
  OwnContext(const OwnContext&) = delete;
  OwnContext& operator=(const OwnContext&) = delete;

  void make_current() const { KILN_CU(cuCtxSetCurrent, context_); }

 private:
  CUcontext context_ = nullptr;
};

template <class Launch>
void refuses(const Launch& launch) {
  try {
    launch();
  } catch (const Error& error) {
    CAPTURE(std::string(error.what()));
    REQUIRE(error.code() == ErrorCode::kDriverError);
    REQUIRE(std::string(error.what()).find("context") != std::string::npos);
    return;
  }
  FAIL("a launch for another context was taken");
}

}  // namespace

TEST_CASE("The default streams are streams like any other", "[contexts]") {
  Gpu& gpu = Gpu::instance();
  register_once(add_op(kNumber));
  const AddBuffer x;
  const AddBuffer out;
  x.fill(5);
  const Tensor from = x.tensor();
  const Tensor to = out.tensor();
  const std::string op = add_name(kNumber);
  const std::array<Arg, 2> args{from, to};
  const Plan plan = gpu.engine.plan(gpu.engine.op(op), args);
  for (const CUstream stream : {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    CAPTURE(stream);
    out.fill(-1);
    gpu.engine.launch(op, {from, to}, stream);
    KILN_CU(cuCtxSynchronize);
    REQUIRE(out.holds(5 + kNumber));
    out.fill(-1);
    plan.launch(args, stream);
    KILN_CU(cuCtxSynchronize);
    REQUIRE(out.holds(5 + kNumber));
  }
}

TEST_CASE("An engine serves a context of its embedder's own, and no work for another runs",
          "[contexts]") {
  Gpu& gpu = Gpu::instance();
  const OwnContext own;
  EngineOptions options;
  options.cache_root = gpu.cache.str();
  Engine engine(options);
  engine.register_op(add_op(kNumber));
  const std::string op = add_name(kNumber);
  const AddBuffer x;
  const AddBuffer out;
  x.fill(5);
  const Tensor from = x.tensor();
  const Tensor to = out.tensor();
  const std::array<Arg, 2> args{from, to};
  const Stream stream;
  engine.launch(op, {from, to}, stream.get());
  stream.synchronize();
  REQUIRE(out.holds(5 + kNumber));
  const Plan plan = engine.plan(engine.op(op), args);

  out.fill(-1);
  refuses([&] { engine.launch(op, {from, to}, gpu.stream.get()); });
  refuses([&] { plan.launch(args, gpu.stream.get()); });
  gpu.context.make_current();
  refuses([&] { engine.launch(op, {from, to}, nullptr); });
  refuses([&] { plan.launch(args, nullptr); });
  KILN_CU(cuCtxSynchronize);
  own.make_current();
  KILN_CU(cuCtxSynchronize);
  REQUIRE(out.holds(-1));
  plan.launch(args, nullptr);
  KILN_CU(cuCtxSynchronize);
  REQUIRE(out.holds(5 + kNumber));
}

}  // namespace kiln::gpu
