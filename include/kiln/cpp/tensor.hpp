#pragma once

/// \file
/// Tensors: DLPack's, and a view for callers that hold a raw pointer.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <dlpack/dlpack.h>

#include <kiln/cpp/error.hpp>
#include <kiln/cpp/view.hpp>

namespace kiln {
inline namespace abi0 {

/// Element types that ops take. Their sizes in bytes: bf16 2, f32 4, e4m3 1, e8m0 1, u8 1, i32 4,
/// i64 8, bool 1, complex64 8.
enum class DType : std::uint8_t { kBF16, kF32, kE4M3, kE8M0, kU8, kI32, kI64, kBool, kComplex64 };

/// DLPack's name of a type, with one lane.
constexpr DLDataType to_dlpack(DType dtype) noexcept {
  // By number where the oldest DLPack header that will do has no name yet.
  switch (dtype) {
    case DType::kBF16:
      return {kDLBfloat, 16, 1};
    case DType::kF32:
      return {kDLFloat, 32, 1};
    case DType::kE4M3:
      return {KILN_DL_FLOAT8_E4M3FN, 8, 1};
    case DType::kE8M0:
      return {KILN_DL_FLOAT8_E8M0FNU, 8, 1};
    case DType::kU8:
      return {kDLUInt, 8, 1};
    case DType::kI32:
      return {kDLInt, 32, 1};
    case DType::kI64:
      return {kDLInt, 64, 1};
    case DType::kBool:
      return {KILN_DL_BOOL, 8, 1};
    case DType::kComplex64:
      return {kDLComplex, 64, 1};
  }
  return {0, 0, 0};
}

/// A DLTensor together with room for its shape and strides. Copyable; the memory stays the
/// caller's. Makes no allocation. A call that gets one looks at it only until the call returns.
class Tensor {
 public:
  static constexpr std::size_t kMaxRank = 8;

  /// A contiguous tensor on CUDA device 0. Throws kInvalidArgument when `shape` has more than
  /// kMaxRank axes.
  Tensor(void* data, DType dtype, View<std::int64_t> shape) : Tensor(data, dtype, shape, 0) {}
  /// The same on CUDA device `device`. No list in braces is taken for it: {2} is a stride.
  template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0>
  Tensor(void* data, DType dtype, View<std::int64_t> shape, I device)
      : Tensor(data, dtype, shape, DLDevice{kDLCUDA, static_cast<std::int32_t>(device)}) {}
  /// The same on any device: pinned host memory is DLDevice{kDLCUDAHost, 0}.
  Tensor(void* data, DType dtype, View<std::int64_t> shape, DLDevice device) {
    require_rank(shape.size());
    tensor_.data = data;
    tensor_.device = device;
    tensor_.ndim = static_cast<std::int32_t>(shape.size());
    tensor_.dtype = to_dlpack(dtype);
    std::copy(shape.begin(), shape.end(), shape_.begin());
    tensor_.shape = shape_.data();
  }
  /// A strided tensor on CUDA device `device`; strides in elements, as many as there are axes.
  Tensor(void* data, DType dtype, View<std::int64_t> shape, View<std::int64_t> strides,
         std::int32_t device = 0)
      : Tensor(data, dtype, shape, device) {
    if (strides.size() != shape.size()) {
      throw Error(ErrorCode::kInvalidArgument, "a tensor has " + std::to_string(shape.size()) +
                                                   " axes and " + std::to_string(strides.size()) +
                                                   " strides; give each axis one");
    }
    std::copy(strides.begin(), strides.end(), strides_.begin());
    tensor_.strides = strides_.data();
  }
  Tensor(const Tensor& other) noexcept { *this = other; }
  Tensor& operator=(const Tensor& other) noexcept {
    tensor_ = other.tensor_;
    shape_ = other.shape_;
    strides_ = other.strides_;
    tensor_.shape = shape_.data();
    tensor_.strides = other.tensor_.strides != nullptr ? strides_.data() : nullptr;
    return *this;
  }
  ~Tensor() = default;

  /// Points into this; valid as long as it.
  const DLTensor& dlpack() const noexcept { return tensor_; }
  void* data() const noexcept { return tensor_.data; }
  /// Another place of the same shape, for launching a plan on it.
  void set_data(void* data) noexcept { tensor_.data = data; }

 private:
  static void require_rank(std::size_t rank) {
    if (rank > kMaxRank) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a tensor has " + std::to_string(rank) + " axes, and kiln::Tensor holds " +
                      std::to_string(kMaxRank) + " at most; pass a DLTensor of your own");
    }
  }

  DLTensor tensor_{};
  std::array<std::int64_t, kMaxRank> shape_{};
  std::array<std::int64_t, kMaxRank> strides_{};
};

}  // namespace abi0
}  // namespace kiln
