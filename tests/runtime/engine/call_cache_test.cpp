#include "runtime/call_cache.hpp"

#include <functional>

#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {
namespace {

class CallCacheTest {
 public:
  CallCacheTest() {
    auto scale = registry_.add(scale_op());
    auto other = registry_.add(scale_op("other"));
    REQUIRE((scale && other));
    scale_ = *scale;
    other_ = *other;
  }

  const registry::BoundOp& scale() const { return *scale_; }
  const registry::BoundOp& other() const { return *other_; }
  // Never followed here.
  static const runtime::Plan* plan(std::size_t i) {
    return static_cast<const runtime::Plan*>(address(0x1000 + i));
  }
  void insert(const std::vector<Arg>& args, const runtime::Plan* plan) {
    cache.insert(scale(), args, {}, plan);
  }
  const runtime::Plan* find(const std::vector<Arg>& args) const {
    return cache.find(scale(), args);
  }

  runtime::CallCache cache;

 private:
  registry::Registry registry_;
  const registry::BoundOp* scale_ = nullptr;
  const registry::BoundOp* other_ = nullptr;
};

std::vector<Arg> args_of(const ScaleCall& call) {
  return {call.x, call.bias, call.factor, call.out};
}

}  // namespace

TEST_CASE("Calls are alike that differ in pointers and the values of scalars alone") {
  CallCacheTest test;
  const ScaleCall call;
  test.insert(args_of(call), test.plan(1));
  CHECK(test.find(args_of(call)) == test.plan(1));
  ScaleCall moved;
  moved.factor = 2;
  DLTensor x = moved.x.dlpack();
  x.data = address(0x70000);
  x.byte_offset = 64;
  CHECK(test.find({x, moved.bias, moved.factor, moved.out}) == test.plan(1));

  CHECK(test.cache.find(test.other(), args_of(call)) == nullptr);
  CHECK(test.find({call.x, call.bias, 1, call.out}) == nullptr);
  CHECK(test.find({call.x, call.bias, Arg(), call.out}) == nullptr);
  CHECK(test.find({call.x, call.bias, call.out, call.factor}) == nullptr);
  CHECK(test.find({call.x, call.bias, call.factor}) == nullptr);
  CHECK(test.find({call.x, call.bias, call.factor, call.out, 1}) == nullptr);
  CHECK(test.find(args_of(ScaleCall(4))) == nullptr);
  CHECK(test.find(args_of(ScaleCall(3, 64, 1))) == nullptr);
}

TEST_CASE("A tensor's dtype, device, rank, shape and strides each tell calls apart") {
  CallCacheTest test;
  const ScaleCall call;
  test.insert(args_of(call), test.plan(1));
  DLTensor x = call.x.dlpack();
  const auto found = [&] { return test.find({x, call.bias, call.factor, call.out}); };
  REQUIRE(found() == test.plan(1));
  std::int64_t shape[] = {3, 64, 1};
  std::int64_t strides[] = {256, 1, 1};
  SECTION("bits") {
    x.dtype.bits = 16;
  }
  SECTION("lanes") {
    x.dtype.lanes = 2;
  }
  SECTION("code") {
    x.dtype.code = kDLInt;
  }
  SECTION("device type") {
    x.device.device_type = kDLCPU;
  }
  SECTION("device") {
    x.device.device_id = 1;
  }
  SECTION("rank") {
    x.ndim = 3;
    x.shape = shape;
  }
  SECTION("strides") {
    x.strides = strides;
  }
  SECTION("no strides") {
    x.strides = nullptr;
  }
  SECTION("strides that would continue the shape") {
    x.strides = nullptr;
    x.ndim = 2;
    shape[0] = 64;
    shape[1] = 3;
    x.shape = shape;
  }
  CHECK(found() == nullptr);
}

TEST_CASE("Tensors that no op takes are found nowhere, and kept nowhere") {
  CallCacheTest test;
  const ScaleCall call;
  DLTensor x = call.x.dlpack();
  SECTION("a negative rank") {
    x.ndim = -1;
  }
  SECTION("a rank beyond any") {
    x.ndim = 1 << 30;
  }
  SECTION("no shape") {
    x.shape = nullptr;
  }
  const std::vector<Arg> args{x, call.bias, call.factor, call.out};
  test.insert(args, test.plan(1));
  CHECK(test.find(args) == nullptr);
  const std::vector<Arg> too_many(1000, Arg(1));
  test.insert(too_many, test.plan(1));
  CHECK(test.find(too_many) == nullptr);
}

TEST_CASE("A full cache of calls keeps no more, and still finds what it has") {
  CallCacheTest test;
  for (std::size_t m = 0; m < runtime::CallCache::kMaxCalls; ++m) {
    REQUIRE(!test.cache.full());
    test.insert(args_of(ScaleCall(static_cast<std::int64_t>(m))), test.plan(m));
  }
  CHECK(test.cache.full());
  test.insert(args_of(ScaleCall(1 << 30)), test.plan(1));
  CHECK(test.find(args_of(ScaleCall(1 << 30))) == nullptr);
  CHECK(test.find(args_of(ScaleCall(1234))) == test.plan(1234));
  test.cache.clear();
  CHECK(!test.cache.full());
  CHECK(test.find(args_of(ScaleCall(1234))) == nullptr);
}

TEST_CASE("What a call must be, a call like ten before it must be too, in the same words") {
  ScaleMachine machine;
  Engine warm = machine.engine();
  Engine cold = machine.engine();
  for (int i = 0; i < 10; ++i) {
    ScaleCall().launch(warm);
  }
  ScaleCall call;
  DLTensor out = call.out.dlpack();
  SECTION("null") {
    out.data = nullptr;
  }
  SECTION("misaligned") {
    out.data = address(0x30000004);
  }
  SECTION("misaligned by its offset") {
    out.byte_offset = 8;
  }
  SECTION("over another argument") {
    out.data = address(0x20000 - 16);
  }
  SECTION("a number beyond f32") {
    call.factor = 1e300;
  }
  const auto launch = [&](Engine& engine) {
    return error_of(ErrorCode::kInvalidArgument, [&] {
      engine.launch("scale", {call.x, call.bias, call.factor, out}, nullptr);
    });
  };
  const std::string message = launch(cold);
  CHECK(!message.empty());
  CHECK(launch(warm) == message);
  CHECK(machine.fake().launches().size() == 10);
  ScaleCall().launch(warm);
  CHECK(machine.fake().launches().size() == 11);
}

TEST_CASE("Calls of one plan with other strides each pack their own") {
  ScaleMachine machine;
  Engine engine = machine.engine();
  ScaleCall call;
  for (const std::int64_t stride : {64, 128, 192, 64, 128, 192}) {
    call.x = Tensor(address(0x10000), DType::kF32, {3, 64}, {stride, 1});
    call.launch(engine);
    CHECK(machine.fake().launches().back().params[1] == bytes_of(stride));
  }
  CHECK(engine.counters().libraries_loaded == 1);
}

}  // namespace kiln::test
