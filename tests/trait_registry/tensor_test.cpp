#include <optional>
#include <string>
#include <type_traits>

#include <kiln/error.hpp>
#include <kiln/tensor.hpp>

#include "tests/support/catch.hpp"

namespace kiln {
namespace {

static_assert(std::is_copy_constructible_v<Tensor> && std::is_copy_assignable_v<Tensor>);
static_assert(std::is_trivially_copyable_v<Arg>);

struct Row {
  DType dtype;
  std::string name;
  std::int64_t bytes;
  int code, bits;
};

// DLPack's numbers are written out: they are an ABI, and the header at hand may not name them all.
const Row kRows[] = {{DType::kBF16, "bf16", 2, 4, 16},
                     {DType::kF32, "f32", 4, 2, 32},
                     {DType::kE4M3, "e4m3", 1, 10, 8},
                     {DType::kE8M0, "e8m0", 1, 14, 8},
                     {DType::kU8, "u8", 1, 1, 8},
                     {DType::kI32, "i32", 4, 0, 32},
                     {DType::kI64, "i64", 8, 0, 64},
                     {DType::kBool, "bool", 1, 6, 8},
                     {DType::kComplex64, "complex64", 8, 5, 64}};

TEST_CASE("Each element type has its name, size and DLPack type, and comes back from it") {
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    CHECK(dtype_name(row.dtype) == row.name);
    CHECK(dtype_size(row.dtype) == row.bytes);
    const DLDataType type = dtype_to_dlpack(row.dtype);
    CHECK(int{type.code} == row.code);
    CHECK(int{type.bits} == row.bits);
    CHECK(int{type.lanes} == 1);
    DType back = row.dtype == DType::kU8 ? DType::kF32 : DType::kU8;
    REQUIRE(dtype_from_dlpack(type, back));
    CHECK(back == row.dtype);
  }
}

TEST_CASE("A DLPack type that Kiln does not have is refused and leaves the output alone") {
  DType out = DType::kI64;
  for (const DLDataType type :
       {DLDataType{kDLFloat, 16, 1}, DLDataType{kDLFloat, 64, 1}, DLDataType{kDLBfloat, 16, 2},
        DLDataType{kDLBfloat, 16, 0}, DLDataType{kDLInt, 8, 1}, DLDataType{kDLUInt, 32, 1},
        DLDataType{11, 8, 1}, DLDataType{99, 8, 1}}) {
    CHECK_FALSE(dtype_from_dlpack(type, out));
    CHECK(out == DType::kI64);
  }
}

TEST_CASE("A tensor made from a shape is contiguous on its device") {
  int storage = 0;
  const Tensor tensor(&storage, DType::kBF16, {2, 3, 4}, 5);
  const DLTensor& dl = tensor.dlpack();
  CHECK(dl.data == &storage);
  CHECK(dl.device.device_type == kDLCUDA);
  CHECK(dl.device.device_id == 5);
  CHECK(dl.byte_offset == 0);
  REQUIRE(dl.ndim == 3);
  CHECK(dl.shape[1] == 3);
  CHECK(dl.strides[0] == 12);
  CHECK(dl.strides[1] == 4);
  CHECK(dl.strides[2] == 1);
}

TEST_CASE("A tensor keeps the strides it is given") {
  const Tensor tensor(nullptr, DType::kF32, {2, 3}, {100, 1});
  CHECK(tensor.dlpack().strides[0] == 100);
  CHECK(tensor.dlpack().device.device_id == 0);
}

TEST_CASE("A copied tensor points to its own shape and strides") {
  std::optional<Tensor> original(std::in_place, nullptr, DType::kF32,
                                 std::initializer_list<std::int64_t>{2, 3});
  const Tensor copy = *original;
  Tensor assigned(nullptr, DType::kU8, {1});
  assigned = *original;
  original.reset();
  for (const Tensor* tensor : {&copy, &static_cast<const Tensor&>(assigned)}) {
    const auto* begin = reinterpret_cast<const char*>(tensor);
    const auto* shape = reinterpret_cast<const char*>(tensor->dlpack().shape);
    CHECK((shape >= begin && shape < begin + sizeof(Tensor)));
    CHECK(tensor->dlpack().shape[1] == 3);
    CHECK(tensor->dlpack().strides[0] == 3);
    CHECK(tensor->dlpack().ndim == 2);
  }
}

TEST_CASE("More than eight axes, or strides of another number than dims, are refused") {
  CHECK_THROWS_WITH(Tensor(nullptr, DType::kF32, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
                    "kiln::Tensor: expected at most 8 dimensions, found 9");
  CHECK_THROWS_WITH(Tensor(nullptr, DType::kF32, {2, 3}, {1}),
                    "kiln::Tensor: expected as many strides as dimensions (2), found 1");
}

TEST_CASE("An argument knows what it holds") {
  CHECK(Arg().kind() == Arg::Kind::kAbsent);
  CHECK(Arg(3).integer() == 3);
  CHECK(Arg(std::int64_t{1} << 40).integer() == std::int64_t{1} << 40);
  CHECK(Arg(0.5).kind() == Arg::Kind::kReal);
  const Tensor tensor(nullptr, DType::kF32, {1});
  CHECK(&Arg(tensor).tensor() == &tensor.dlpack());
}

}  // namespace
}  // namespace kiln
