#include <array>
#include <limits>

#include "tests/cpp_api/machine.hpp"

namespace kiln::test {
namespace {

std::size_t count_of(Args args) {
  return args.size();
}

}  // namespace

TEST_CASE("An argument is what C would have made of it") {
  const Tensor x(place(16), DType::kF32, {3, 64});
  const Arg tensor = x;
  CHECK(tensor.c().kind == KILN_ARG_TENSOR);
  CHECK(tensor.c().value.tensor == &x.dlpack());
  CHECK(tensor.c().name == nullptr);
  CHECK(Arg(true).c().value.integer == 1);
  CHECK(Arg(-7).c().kind == KILN_ARG_INTEGER);
  CHECK(Arg(std::int64_t{1} << 40).c().value.integer == std::int64_t{1} << 40);
  CHECK(Arg(std::size_t{5}).c().value.integer == 5);
  CHECK(Arg(1.5F).c().kind == KILN_ARG_REAL);
  CHECK(Arg(1.5F).c().value.real == 1.5);
  CHECK(Arg().c().kind == KILN_ARG_ABSENT);
  const Arg named("factor", 2.0);
  CHECK(std::string(named.c().name) == "factor");
  CHECK(named.c().value.real == 2.0);
}

TEST_CASE("Arguments are a list, an array, a vector, or none") {
  const Tensor x(place(16), DType::kF32, {3, 64});
  const Arg array[] = {x, 1, 2.0};
  CHECK(count_of({}) == 0);
  CHECK(detail::c_args({}) == nullptr);
  CHECK(count_of({x}) == 1);
  CHECK(count_of({x, x}) == 2);
  CHECK(count_of({{"x", x}}) == 1);
  CHECK(count_of({{"x", x}, {"factor", 1}}) == 2);
  CHECK(count_of(array) == 3);
  CHECK(count_of({array, 2}) == 2);
  CHECK(count_of(std::vector<Arg>{x, 1}) == 2);
  CHECK(count_of(std::array<Arg, 2>{x, 1}) == 2);
  const Args all = array;
  CHECK(detail::c_args(all)[2].value.real == 2.0);
}

TEST_CASE("A tensor's copy has its own shape, and a contiguous one has no strides") {
  const Tensor strided(place(16), DType::kBF16, {3, 64}, {128, 1}, 1);
  const Tensor copy = strided;
  CHECK(copy.dlpack().shape != strided.dlpack().shape);
  CHECK(copy.dlpack().strides[0] == 128);
  CHECK(copy.dlpack().device.device_id == 1);
  CHECK(copy.data() == place(16));
  Tensor other(place(32), DType::kI64, {5});
  CHECK(other.dlpack().strides == nullptr);
  other = strided;
  CHECK(other.dlpack().ndim == 2);
  CHECK(other.dlpack().shape[1] == 64);
  CHECK(other.dlpack().strides != strided.dlpack().strides);
  CHECK(Tensor(nullptr, DType::kF32, {}).dlpack().ndim == 0);
  CHECK(Tensor(nullptr, DType::kF32, {4}, {2}).dlpack().strides[0] == 2);
  CHECK(Tensor(nullptr, DType::kF32, {4}, 2).dlpack().device.device_id == 2);
  const Tensor pinned(nullptr, DType::kI32, {4}, DLDevice{kDLCUDAHost, 0});
  CHECK(pinned.dlpack().device.device_type == kDLCUDAHost);
}

TEST_CASE("A tensor that cannot be is refused") {
  CHECK(contains(error_of(ErrorCode::kInvalidArgument,
                          [] {
                            const std::vector<std::int64_t> shape(9, 1);
                            Tensor(nullptr, DType::kF32, shape);
                          }),
                 "9 axes"));
  CHECK(contains(error_of(ErrorCode::kInvalidArgument,
                          [] {
                            Tensor(nullptr, DType::kF32, {2, 3}, {1});
                          }),
                 "1 strides"));
}

TEST_CASE("Every type has its DLPack name") {
  const auto bits = [](DType type) { return static_cast<int>(to_dlpack(type).bits); };
  CHECK(bits(DType::kBF16) == 16);
  CHECK(bits(DType::kE4M3) == 8);
  CHECK(bits(DType::kE8M0) == 8);
  CHECK(bits(DType::kComplex64) == 64);
  CHECK(to_dlpack(DType::kBool).code == 6);
  CHECK(to_dlpack(DType::kU8).code == kDLUInt);
  CHECK(to_dlpack(DType::kI32).lanes == 1);
}

}  // namespace kiln::test
