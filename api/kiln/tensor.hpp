#pragma once

/// \file
/// What a call passes to an op: DLPack tensors and scalars.
///
/// Kiln never owns, copies or frees tensor memory. A tensor must stay valid until the launched work
/// has finished on its stream.

#include <array>
#include <cstdint>
#include <initializer_list>

#include <dlpack/dlpack.h>

namespace kiln {

/// Element types that ops take. Storage sizes in bytes: bf16 2, f32 4, e4m3 1, e8m0 1, u8 1, i32 4,
/// i64 8, boolean 1, complex64 8.
enum class DType : std::uint8_t { kBF16, kF32, kE4M3, kE8M0, kU8, kI32, kI64, kBool, kComplex64 };

/// DLPack type codes that the oldest supported DLPack header does not name yet.
inline constexpr std::uint8_t kDLPackBool = 6;
inline constexpr std::uint8_t kDLPackFloat8E4M3FN = 10;
inline constexpr std::uint8_t kDLPackFloat8E8M0FNU = 14;

const char* dtype_name(DType dtype) noexcept;      ///< "bf16", "f32", ...
std::int64_t dtype_size(DType dtype) noexcept;     ///< Bytes per element.
DLDataType dtype_to_dlpack(DType dtype) noexcept;  ///< With lanes = 1.
/// True and sets `out` when Kiln has the type; lanes must be 1.
bool dtype_from_dlpack(DLDataType dlpack, DType& out) noexcept;

/// A DLTensor together with room for its shape and strides: a view for callers that hold a raw
/// device pointer. Copyable; the memory stays the caller's.
class Tensor {
 public:
  static constexpr int kMaxRank = 8;

  /// A contiguous tensor on CUDA device `device`. Throws Error when the rank exceeds kMaxRank.
  Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> shape, int device = 0);
  /// A strided tensor; strides in elements, as many as dims.
  Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> shape,
         std::initializer_list<std::int64_t> strides, int device = 0);
  Tensor(const Tensor& other) noexcept;
  Tensor& operator=(const Tensor& other) noexcept;
  ~Tensor() = default;

  const DLTensor& dlpack() const noexcept { return tensor_; }

 private:
  DLTensor tensor_{};
  std::array<std::int64_t, kMaxRank> shape_{};
  std::array<std::int64_t, kMaxRank> strides_{};
};

/// One argument of a call, in the order of the op's description. Holds a pointer to the tensor, so
/// the tensor must outlive the call (not the kernel). Absent stands for an optional argument left
/// out.
class Arg {
 public:
  enum class Kind : std::uint8_t { kAbsent, kTensor, kInteger, kReal };

  Arg() noexcept = default;
  Arg(const DLTensor& tensor) noexcept : kind_(Kind::kTensor) { value_.tensor = &tensor; }
  Arg(const Tensor& tensor) noexcept : Arg(tensor.dlpack()) {}
  Arg(std::int64_t value) noexcept : kind_(Kind::kInteger) { value_.integer = value; }
  Arg(int value) noexcept : Arg(static_cast<std::int64_t>(value)) {}
  Arg(double value) noexcept : kind_(Kind::kReal) { value_.real = value; }

  Kind kind() const noexcept { return kind_; }
  const DLTensor& tensor() const noexcept { return *value_.tensor; }  ///< Requires kTensor.
  std::int64_t integer() const noexcept { return value_.integer; }    ///< Requires kInteger.
  double real() const noexcept { return value_.real; }                ///< Requires kReal.

 private:
  Kind kind_ = Kind::kAbsent;
  union {
    const DLTensor* tensor;
    std::int64_t integer;
    double real;
  } value_{};
};

}  // namespace kiln
