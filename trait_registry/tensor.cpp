#include <algorithm>
#include <array>
#include <string>

#include <kiln/error.hpp>
#include <kiln/tensor.hpp>

namespace kiln {
namespace {

struct DTypeRow {
  DType dtype;
  const char* name;
  std::uint8_t code;
  std::uint8_t bits;
};

// In the order of DType, so that a DType is its row's index.
constexpr std::array kDTypes = {
    DTypeRow{DType::kBF16, "bf16", kDLBfloat, 16},
    DTypeRow{DType::kF32, "f32", kDLFloat, 32},
    DTypeRow{DType::kE4M3, "e4m3", kDLPackFloat8E4M3FN, 8},
    DTypeRow{DType::kE8M0, "e8m0", kDLPackFloat8E8M0FNU, 8},
    DTypeRow{DType::kU8, "u8", kDLUInt, 8},
    DTypeRow{DType::kI32, "i32", kDLInt, 32},
    DTypeRow{DType::kI64, "i64", kDLInt, 64},
    DTypeRow{DType::kBool, "bool", kDLPackBool, 8},
    DTypeRow{DType::kComplex64, "complex64", kDLComplex, 64},
};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (static_cast<std::size_t>(kDTypes[i].dtype) != i) {
      return false;
    }
  }
  return true;
}
static_assert(rows_are_in_order());

const DTypeRow& row(DType dtype) noexcept {
  return kDTypes[static_cast<std::size_t>(dtype)];
}

void check_rank(std::size_t rank) {
  if (rank > static_cast<std::size_t>(Tensor::kMaxRank)) {
    throw Error(ErrorCode::kInvalidArgument, "kiln::Tensor: expected at most " +
                                                 std::to_string(Tensor::kMaxRank) +
                                                 " dimensions, found " + std::to_string(rank));
  }
}

}  // namespace

const char* dtype_name(DType dtype) noexcept {
  return row(dtype).name;
}

std::int64_t dtype_size(DType dtype) noexcept {
  return row(dtype).bits / 8;
}

DLDataType dtype_to_dlpack(DType dtype) noexcept {
  return {row(dtype).code, row(dtype).bits, 1};
}

bool dtype_from_dlpack(DLDataType dlpack, DType& out) noexcept {
  for (const DTypeRow& known : kDTypes) {
    if (known.code == dlpack.code && known.bits == dlpack.bits && dlpack.lanes == 1) {
      out = known.dtype;
      return true;
    }
  }
  return false;
}

Tensor::Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> shape, int device) {
  check_rank(shape.size());
  std::copy(shape.begin(), shape.end(), shape_.begin());
  // Unsigned, since a call with an absurd shape must reach its check rather than overflow here.
  std::uint64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides_[axis] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(shape_[axis]);
  }
  tensor_ = {data,
             {kDLCUDA, device},
             static_cast<int>(shape.size()),
             dtype_to_dlpack(dtype),
             shape_.data(),
             strides_.data(),
             0};
}

Tensor::Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> shape,
               std::initializer_list<std::int64_t> strides, int device)
    : Tensor(data, dtype, shape, device) {
  if (strides.size() != shape.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "kiln::Tensor: expected as many strides as dimensions (" +
                    std::to_string(shape.size()) + "), found " + std::to_string(strides.size()));
  }
  std::copy(strides.begin(), strides.end(), strides_.begin());
}

Tensor::Tensor(const Tensor& other) noexcept {
  *this = other;
}

Tensor& Tensor::operator=(const Tensor& other) noexcept {
  tensor_ = other.tensor_;
  shape_ = other.shape_;
  strides_ = other.strides_;
  tensor_.shape = shape_.data();
  tensor_.strides = strides_.data();
  return *this;
}

}  // namespace kiln
