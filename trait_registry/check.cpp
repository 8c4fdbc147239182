#include "trait_registry/check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "trait_registry/footprint.hpp"

namespace kiln::registry {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

std::string list(const std::int64_t* values, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", values[i]);
  }
  return "[" + text + "]";
}

std::string device_text(const DLDevice& device) {
  switch (device.device_type) {
    case kDLCUDA:
    case kDLCUDAManaged:
      return fmt::format("cuda:{}", device.device_id);
    case kDLCPU:
      return "cpu";
    case kDLCUDAHost:
      return "pinned host memory";
    default:
      return fmt::format("DLPack device type {}", static_cast<int>(device.device_type));
  }
}

std::string dtype_text(const DLDataType& type) {
  DType known{};
  return dtype_from_dlpack(type, known)
             ? std::string(dtype_name(known))
             : fmt::format("DLPack type code {} with {} bits and {} lanes", type.code, type.bits,
                           type.lanes);
}

using Strides = std::array<std::int64_t, Tensor::kMaxRank>;

std::uint64_t address(const DLTensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
}

struct Memory {
  Strides strides{};  // In elements, absent ones filled in.
  std::int64_t elements = 1;
  bool contiguous = true;
  bool too_large = false;
};

// Of a tensor that has elements and a rank that was checked. The stride of an axis with one index
// is never used, and frameworks leave anything there, so it counts as packed.
Memory memory_of(const DLTensor& tensor) {
  Memory memory;
  std::int64_t packed = 1;
  for (int axis = tensor.ndim; axis-- > 0;) {
    const std::int64_t extent = tensor.shape[axis];
    std::int64_t& stride = memory.strides[static_cast<std::size_t>(axis)];
    stride = tensor.strides == nullptr || extent == 1 ? packed : tensor.strides[axis];
    memory.contiguous = memory.contiguous && stride == packed;
    memory.too_large |= __builtin_mul_overflow(packed, extent, &packed);
  }
  memory.elements = packed;
  return memory;
}

// Nothing when it fits in no memory. The strides are not negative.
std::optional<Footprint> footprint_of(const DLTensor& tensor, const Memory& memory) {
  const std::int64_t element_bytes = tensor.dtype.bits / 8;
  std::array<Repeat, Tensor::kMaxRank> repeats{};
  bool too_large = memory.too_large;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(tensor.ndim); ++axis) {
    repeats[axis].count = tensor.shape[axis];
    too_large |= __builtin_mul_overflow(memory.strides[axis], element_bytes, &repeats[axis].stride);
  }
  return too_large ? std::nullopt
                   : make_footprint(address(tensor), element_bytes, repeats, tensor.ndim);
}

std::string layout_text(const DLTensor& tensor, const Memory& memory) {
  return fmt::format("strides {} for shape {}", list(memory.strides.data(), tensor.ndim),
                     list(tensor.shape, tensor.ndim));
}

// Checks one call. Lives on the stack; the first failure ends it.
class CallCheck {
 public:
  CallCheck(const BoundOp& bound, std::span<const Arg> args, Problem& problem, int& device)
      : bound_(bound), args_(args), problem_(problem), device_(device) {
    set_by_.fill(kNone);
  }

  /// Without pointers, overlap is not checked either.
  enum class Depth : std::uint8_t { kShapes, kPointers, kExactOverlap };

  Status run(Depth depth) {
    has_pointers_ = depth != Depth::kShapes;
    if (args_.size() != bound_.op.args.size()) {
      return wrong_count();
    }
    for (std::size_t i = 0; i < args_.size(); ++i) {
      if (Status status = check_arg(i); !status) {
        return status;
      }
    }
    if (Status status = check_derived_extents(); !status) {
      return status;
    }
    if (has_pointers_) {
      if (Status status = check_overlap(depth == Depth::kExactOverlap); !status) {
        return status;
      }
    }
    return check_contract();
  }

 private:
  static constexpr std::uint8_t kNone = 255;

  Status wrong(std::size_t arg, const std::string& expected, const std::string& found) const {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: argument \"{}\": expected {}, found {}", bound_.op.name,
                            bound_.op.args[arg].name, expected, found));
  }

  Status check_contract() const {
    const Op& op = bound_.op;
    std::string wrong = op.contract ? op.contract(problem_) : std::string();
    if (wrong.empty() && op.scalar_contract) {
      wrong = op.scalar_contract(problem_, Scalars(bound_.names, args_.data()));
    }
    return wrong.empty() ? Status()
                         : fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", op.name, wrong));
  }

  Status wrong_count() const {
    std::string names;
    for (const ArgSpec& arg : bound_.op.args) {
      names += (names.empty() ? "" : ", ") + arg.name;
    }
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected {} arguments ({}), found {}", bound_.op.name,
                            bound_.op.args.size(), names, args_.size()));
  }

  Status check_arg(std::size_t i) {
    const ArgSpec& spec = bound_.op.args[i];
    const Arg& arg = args_[i];
    if (arg.kind() == Arg::Kind::kAbsent) {
      return spec.optional ? Status()
                           : wrong(i, spec.is_tensor() ? "a tensor" : "a scalar", "none");
    }
    if (spec.is_tensor()) {
      return check_tensor(i);
    }
    problem_.set_scalar(i);
    return check_scalar(i);
  }

  Status check_scalar(std::size_t i) const {
    const Arg& arg = args_[i];
    const ScalarType type = bound_.op.args[i].scalar;
    if (arg.kind() == Arg::Kind::kTensor) {
      return wrong(i, "a scalar", "a tensor");
    }
    if (type == ScalarType::kF32) {
      return check_real(i);
    }
    if (arg.kind() != Arg::Kind::kInteger) {
      return wrong(i, "an integer", fmt::format("the real number {}", arg.real()));
    }
    const std::int64_t value = arg.integer();
    if (type == ScalarType::kBool && value != 0 && value != 1) {
      return wrong(i, "0 or 1", fmt::format("{}", value));
    }
    if (type == ScalarType::kI32 &&
        (value < std::numeric_limits<std::int32_t>::min() || value > kMaxInt32)) {
      return wrong(i, "an integer of 32 bits", fmt::format("{}", value));
    }
    return {};
  }

  Status check_real(std::size_t i) const {
    if (args_[i].kind() == Arg::Kind::kInteger) {
      return {};
    }
    const double value = args_[i].real();
    if (std::isfinite(value) &&
        std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
      return wrong(i, "a number within f32", fmt::format("{}", value));
    }
    return {};
  }

  Status check_tensor(std::size_t i) {
    if (args_[i].kind() != Arg::Kind::kTensor) {
      return wrong(i, "a tensor", "a scalar");
    }
    const DLTensor& tensor = args_[i].tensor();
    DType dtype{};
    if (!dtype_from_dlpack(tensor.dtype, dtype) ||
        (bound_.args[i].dtype_mask & (1U << static_cast<unsigned>(dtype))) == 0) {
      return wrong_dtype(i);
    }
    problem_.set_arg(i, dtype);
    if (Status status = check_shape(i, tensor); !status) {
      return status;
    }
    if (Status status = check_device(i, tensor.device); !status) {
      return status;
    }
    for (int axis = 0; axis < tensor.ndim; ++axis) {
      if (tensor.shape[axis] == 0) {
        return {};  // No element: its pointer and strides are never used.
      }
    }
    return check_memory(i, tensor);
  }

  Status wrong_dtype(std::size_t i) const {
    std::string allowed;
    for (const DType dtype : bound_.op.args[i].dtypes) {
      allowed += fmt::format("{}{}", allowed.empty() ? "" : " or ", dtype_name(dtype));
    }
    return wrong(i, "dtype " + allowed, dtype_text(args_[i].tensor().dtype));
  }

  Status check_shape(std::size_t i, const DLTensor& tensor) {
    const std::vector<BoundDim>& shape = bound_.args[i].shape;
    if (!has_rank(i, tensor.ndim)) {
      return wrong_shape(i, "");
    }
    if (tensor.shape == nullptr && tensor.ndim > 0) {
      return wrong(i, "a shape", "null");
    }
    // Axes are counted from the last, since the first one described may stand for several.
    const std::int64_t* extents = tensor.shape + tensor.ndim;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      const bool is_leading = shape[axis].kind == Dim::Kind::kLeading;
      std::int64_t extent = 1;
      do {
        if (extents == tensor.shape) {
          break;  // No leading axis, which leaves 1.
        }
        --extents;
        if (*extents < 0 || __builtin_mul_overflow(extent, *extents, &extent)) {
          return wrong_shape(i, "");
        }
      } while (is_leading);
      if (shape[axis].kind == Dim::Kind::kFixed && extent != shape[axis].extent) {
        return wrong_shape(i, "");
      }
      if (shape[axis].symbol >= 0) {
        if (Status status = set_symbol(i, shape[axis].symbol, extent); !status) {
          return status;
        }
      }
    }
    return {};
  }

  bool has_rank(std::size_t i, int rank) const {
    const auto described = static_cast<int>(bound_.args[i].shape.size());
    return bound_.args[i].has_leading ? rank >= described - 1 && rank <= Tensor::kMaxRank
                                      : rank == described;
  }

  // Once all symbols are known.
  Status check_derived_extents() const {
    for (std::size_t i = 0; i < args_.size(); ++i) {
      if (!bound_.args[i].has_derived || args_[i].kind() != Arg::Kind::kTensor) {
        continue;
      }
      const std::vector<Dim>& shape = bound_.op.args[i].shape;
      const DLTensor& tensor = args_[i].tensor();
      const std::int64_t* const extents = tensor.shape + tensor.ndim - shape.size();
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (shape[axis].kind != Dim::Kind::kDerived) {
          continue;
        }
        const std::int64_t expected = shape[axis].derive(problem_);
        if (extents[axis] != expected) {
          return wrong_shape(i, fmt::format(" with {} = {}", shape[axis].symbol, expected));
        }
      }
    }
    return {};
  }

  Status set_symbol(std::size_t i, int symbol, std::int64_t extent) {
    const auto s = static_cast<std::size_t>(symbol);
    if (set_by_[s] == kNone) {
      set_by_[s] = static_cast<std::uint8_t>(i);
      problem_.set_dim(s, extent);
    }
    const std::string& name = bound_.names.symbols[s];
    if (problem_.dim_at(s) != extent) {
      return wrong_shape(i, fmt::format(" with {} = {} as in argument \"{}\"", name,
                                        problem_.dim_at(s), bound_.op.args[set_by_[s]].name));
    }
    if (extent > kMaxInt32 && (bound_.i32_symbols & (1U << symbol)) != 0) {
      return wrong(
          i, fmt::format("{} of at most {}, since a kernel takes it as 32 bits", name, kMaxInt32),
          fmt::format("{}", extent));
    }
    return {};
  }

  Status wrong_shape(std::size_t i, const std::string& where) const {
    std::string shape;
    for (const Dim& dim : bound_.op.args[i].shape) {
      shape += shape.empty() ? "" : ", ";
      shape += dim.text();
    }
    const DLTensor& tensor = args_[i].tensor();
    return wrong(i, fmt::format("shape [{}]{}", shape, where), list(tensor.shape, tensor.ndim));
  }

  Status check_device(std::size_t i, const DLDevice& device) {
    const bool host_memory = bound_.op.args[i].host_memory;
    if (host_memory && device.device_type == kDLCUDAHost) {
      return {};
    }
    if (device.device_type != kDLCUDA && device.device_type != kDLCUDAManaged) {
      return wrong(i,
                   host_memory ? "a tensor on a CUDA device or in pinned host memory"
                               : "a tensor on a CUDA device",
                   device_text(device));
    }
    if (device_set_by_ == kNone) {
      device_set_by_ = static_cast<std::uint8_t>(i);
      device_ = device.device_id;
    }
    if (device.device_id != device_) {
      return wrong(
          i,
          fmt::format("cuda:{} as argument \"{}\"", device_, bound_.op.args[device_set_by_].name),
          device_text(device));
    }
    return {};
  }

  // Pointer, strides and alignment of a tensor that has elements.
  Status check_memory(std::size_t i, const DLTensor& tensor) {
    if (tensor.data == nullptr && has_pointers_) {
      return wrong(i, "a device pointer", "null");
    }
    const Memory memory = memory_of(tensor);
    if (Status status = check_strides(i, tensor, memory); !status) {
      return status;
    }
    if (Status status = set_extent(i, tensor, memory); !status) {
      return status;
    }
    return check_alignment(i, tensor, memory);
  }

  Status check_strides(std::size_t i, const DLTensor& tensor, const Memory& memory) const {
    if (!memory.contiguous) {
      if (bound_.op.args[i].layout == Layout::kContiguous) {
        return wrong(i, "a contiguous tensor", layout_text(tensor, memory));
      }
      if (memory.strides[static_cast<std::size_t>(tensor.ndim - 1)] != 1) {
        return wrong(i, "an innermost stride of 1", layout_text(tensor, memory));
      }
    }
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(tensor.ndim); ++axis) {
      const std::int64_t stride = memory.strides[axis];
      if (stride < 0 && !memory.too_large) {
        return wrong(i, "strides that are not negative", layout_text(tensor, memory));
      }
      const bool taken_as_i32 = (bound_.args[i].i32_strides & (1U << axis)) != 0;
      if (taken_as_i32 && tensor.shape[axis] > 1 && stride > kMaxInt32) {
        return wrong(i,
                     fmt::format("a stride of at most {} along axis {}, since a kernel takes it as "
                                 "32 bits",
                                 kMaxInt32, axis),
                     fmt::format("{}", stride));
      }
    }
    return {};
  }

  Status set_extent(std::size_t i, const DLTensor& tensor, const Memory& memory) {
    // The common case, at a fraction of the general one's time.
    if (memory.contiguous && !memory.too_large && memory.elements <= kMaxInt32) {
      extents_[i] = {address(tensor), memory.elements * (tensor.dtype.bits / 8), true};
      return {};
    }
    const std::optional<Footprint> footprint = footprint_of(tensor, memory);
    if (!footprint) {
      return wrong(i, "a tensor that fits in memory", layout_text(tensor, memory));
    }
    if (overlaps_itself(*footprint)) {
      return wrong(i, "rows that do not overlap", layout_text(tensor, memory));
    }
    extents_[i] = {footprint->begin, footprint->span, footprint->dense};
    return {};
  }

  // Natural alignment is the least that any argument needs.
  Status check_alignment(std::size_t i, const DLTensor& tensor, const Memory& memory) const {
    const std::int64_t size = tensor.dtype.bits / 8;
    const auto alignment = std::max<std::int64_t>(bound_.op.args[i].alignment, size);
    const std::uint64_t start = address(tensor);
    if (has_pointers_ && start % static_cast<std::uint64_t>(alignment) != 0) {
      return wrong(i, fmt::format("an address aligned to {} bytes", alignment),
                   fmt::format("{:#x}", start));
    }
    for (std::size_t axis = 0; axis + 1 < static_cast<std::size_t>(tensor.ndim); ++axis) {
      const std::int64_t stride = memory.strides[axis];
      if (tensor.shape[axis] > 1 && stride * size % alignment != 0) {
        return wrong(i, fmt::format("each row to start on a {}-byte boundary", alignment),
                     fmt::format("a stride of {} elements ({} bytes) along axis {}", stride,
                                 stride * size, axis));
      }
    }
    return {};
  }

  Status check_overlap(bool exact) const {
    for (std::size_t i = 0; i < args_.size(); ++i) {
      for (std::size_t j = i + 1; j < args_.size(); ++j) {
        const bool matters = bound_.args[i].written || bound_.args[j].written;
        if (matters && spans_intersect(extents_[i], extents_[j]) && overlap_counts(i, j, exact)) {
          return overlap(i, j);
        }
      }
    }
    return {};
  }

  // Of two tensors whose spans intersect.
  bool overlap_counts(std::size_t i, std::size_t j, bool exact) const {
    if (extents_[i].dense && extents_[j].dense) {
      return true;
    }
    if (!exact) {
      return false;
    }
    const DLTensor& a = args_[i].tensor();
    const DLTensor& b = args_[j].tensor();
    return share_a_byte(*footprint_of(a, memory_of(a)), *footprint_of(b, memory_of(b)));
  }

  Status overlap(std::size_t i, std::size_t j) const {
    const std::size_t written = bound_.args[j].written ? j : i;
    const std::size_t other = bound_.args[j].written ? i : j;
    const auto range = [&](const Extent& extent) {
      return fmt::format("[{:#x}, {:#x})", extent.begin,
                         extent.begin + static_cast<std::uint64_t>(extent.span));
    };
    return wrong(
        written, "memory of its own, since it is written",
        fmt::format("{}, which shares bytes with argument \"{}\" at {}", range(extents_[written]),
                    bound_.op.args[other].name, range(extents_[other])));
  }

  const BoundOp& bound_;
  std::span<const Arg> args_;
  Problem& problem_;
  int& device_;
  std::array<std::uint8_t, Problem::kMaxSymbols>
      set_by_{};  // The argument that gave a symbol its value.
  std::uint8_t device_set_by_ = kNone;
  bool has_pointers_ = true;
  std::array<Extent, Problem::kMaxArgs> extents_{};  // Span 0: no memory.
};

Status run_check(const BoundOp& bound, std::span<const Arg> args, CallCheck::Depth depth,
                 Problem& problem, int& device) {
  Problem fresh(bound.names);
  fresh.set_target(problem.target());
  fresh.set_pdl(problem.pdl());
  problem = fresh;
  device = -1;
  return CallCheck(bound, args, problem, device).run(depth);
}

}  // namespace

Status check_call(const BoundOp& bound, std::span<const Arg> args, bool exact_overlap,
                  Problem& problem, int& device) {
  const auto depth = exact_overlap ? CallCheck::Depth::kExactOverlap : CallCheck::Depth::kPointers;
  return run_check(bound, args, depth, problem, device);
}

Status check_shapes(const BoundOp& bound, std::span<const Arg> args, Problem& problem,
                    int& device) {
  return run_check(bound, args, CallCheck::Depth::kShapes, problem, device);
}

std::string policy_reason(const BoundOp& bound, const Problem& problem) {
  return bound.op.policy ? bound.op.policy(problem) : std::string();
}

}  // namespace kiln::registry
