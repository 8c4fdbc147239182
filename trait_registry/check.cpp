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

// How many elements a tensor has that has some, that needs none of memory_of() and what follows
// from it: without gaps, counted by 32 bits, and each row on a multiple of `alignment` bytes, which
// is a power of two. 0 for one that may be none of that.
std::int64_t plain_elements(const DLTensor& tensor, std::int64_t alignment) {
  const std::int64_t element_bytes = tensor.dtype.bits / 8;
  std::int64_t packed = 1;
  std::int64_t odd_bytes = 0;
  for (int axis = tensor.ndim; axis-- > 0;) {
    const std::int64_t extent = tensor.shape[axis];
    if (extent == 1) {
      continue;
    }
    if (extent > kMaxInt32 || (tensor.strides != nullptr && tensor.strides[axis] != packed)) {
      return 0;
    }
    odd_bytes |= axis + 1 < tensor.ndim ? packed * element_bytes : 0;
    packed *= extent;
    if (packed > kMaxInt32) {
      return 0;
    }
  }
  return (odd_bytes & (alignment - 1)) == 0 ? packed : 0;
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

// Whether a scalar of the right kind has a value that its type can take.
bool value_fits(ScalarType type, const Arg& arg) {
  switch (type) {
    case ScalarType::kI64:
      return true;
    case ScalarType::kI32:
      return arg.integer() >= std::numeric_limits<std::int32_t>::min() &&
             arg.integer() <= kMaxInt32;
    case ScalarType::kBool:
      return arg.integer() == 0 || arg.integer() == 1;
    case ScalarType::kF32:
      return arg.kind() == Arg::Kind::kInteger || !std::isfinite(arg.real()) ||
             std::fabs(arg.real()) <= static_cast<double>(std::numeric_limits<float>::max());
  }
  return false;
}

std::string layout_text(const DLTensor& tensor, const Memory& memory) {
  return fmt::format("strides {} for shape {}", list(memory.strides.data(), tensor.ndim),
                     list(tensor.shape, tensor.ndim));
}

// Checks one call. Lives on the stack; the first failure ends it. Its members say whether all is
// well and leave what is not in a string: a Status for each of them would take as long as they do.
class CallCheck {
 public:
  /// `failure` is said what is wrong.
  CallCheck(const BoundOp& bound, std::span<const Arg> args, Problem& problem, int& device,
            std::string& failure)
      : bound_(bound), args_(args), problem_(problem), device_(device), failure_(failure) {
    set_by_.fill(kNone);
  }

  /// Without pointers, overlap is not checked either.
  enum class Depth : std::uint8_t { kShapes, kPointers, kExactOverlap };

  bool run(Depth depth) {
    has_pointers_ = depth != Depth::kShapes;
    if (args_.size() != bound_.op.args.size()) {
      return wrong_count();
    }
    for (std::size_t i = 0; i < args_.size(); ++i) {
      if (!check_arg(i)) {
        return false;
      }
    }
    if (!check_derived_extents()) {
      return false;
    }
    if (has_pointers_) {
      if (!check_overlap(depth == Depth::kExactOverlap)) {
        return false;
      }
    }
    return check_contract();
  }

  /// Of a call that passed.
  Recheck recheck() const {
    Recheck recheck;
    for (std::size_t i = 0; i < placed_; ++i) {
      const Place& a = places_[i];
      const auto alignment = static_cast<std::uint64_t>(alignment_of(a.arg, args_[a.arg].tensor()));
      recheck.memory.push_back({a.span, alignment - 1, a.arg});
      for (std::size_t j = i + 1; j < placed_; ++j) {
        const Place& b = places_[j];
        if (a.dense && b.dense && either_written(a, b)) {
          recheck.apart.push_back({static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(j)});
        }
      }
    }
    for (std::size_t i = 0; i < args_.size(); ++i) {
      const Arg::Kind kind = args_[i].kind();
      if (kind == Arg::Kind::kInteger || kind == Arg::Kind::kReal) {
        recheck.scalars.push_back({static_cast<std::uint8_t>(i), bound_.op.args[i].scalar});
      }
    }
    if (bound_.op.scalar_contract) {
      recheck.scalar_contract = problem_;
    }
    return recheck;
  }

 private:
  static constexpr std::uint8_t kNone = 255;

  // Always false, as everything that finds something wrong.
  [[gnu::cold]] bool wrong(std::size_t arg, const std::string& expected,
                           const std::string& found) const {
    failure_ = fmt::format("{}: argument \"{}\": expected {}, found {}", bound_.op.name,
                           bound_.op.args[arg].name, expected, found);
    return false;
  }

  bool check_contract() const {
    const Op& op = bound_.op;
    std::string wrong = op.contract ? op.contract(problem_) : std::string();
    if (wrong.empty() && op.scalar_contract) {
      wrong = op.scalar_contract(problem_, Scalars(bound_.names, args_.data()));
    }
    if (!wrong.empty()) {
      failure_ = fmt::format("{}: {}", op.name, wrong);
    }
    return wrong.empty();
  }

  [[gnu::cold]] bool wrong_count() const {
    std::string names;
    for (const ArgSpec& arg : bound_.op.args) {
      names += (names.empty() ? "" : ", ") + arg.name;
    }
    failure_ = fmt::format("{}: expected {} arguments ({}), found {}", bound_.op.name,
                           bound_.op.args.size(), names, args_.size());
    return false;
  }

  bool check_arg(std::size_t i) {
    const BoundArg& spec = bound_.args[i];
    const Arg& arg = args_[i];
    if (arg.kind() == Arg::Kind::kAbsent) {
      problem_.set_absent(i);
      return spec.optional || wrong(i, spec.is_tensor ? "a tensor" : "a scalar", "none");
    }
    if (spec.is_tensor) {
      return check_tensor(i);
    }
    problem_.set_scalar(i);
    return check_scalar(i);
  }

  bool check_scalar(std::size_t i) const {
    const Arg& arg = args_[i];
    const ScalarType type = bound_.op.args[i].scalar;
    if (arg.kind() == Arg::Kind::kTensor) {
      return wrong(i, "a scalar", "a tensor");
    }
    if (type != ScalarType::kF32 && arg.kind() != Arg::Kind::kInteger) {
      return wrong(i, "an integer", fmt::format("the real number {}", arg.real()));
    }
    return value_fits(type, arg) || wrong_value(i, type);
  }

  [[gnu::cold]] bool wrong_value(std::size_t i, ScalarType type) const {
    if (type == ScalarType::kF32) {
      return wrong(i, "a number within f32", fmt::format("{}", args_[i].real()));
    }
    return wrong(i, type == ScalarType::kBool ? "0 or 1" : "an integer of 32 bits",
                 fmt::format("{}", args_[i].integer()));
  }

  bool check_tensor(std::size_t i) {
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
    if (!check_shape(i, tensor)) {
      return false;
    }
    if (!check_device(i, tensor.device)) {
      return false;
    }
    for (int axis = 0; axis < tensor.ndim; ++axis) {
      if (tensor.shape[axis] == 0) {
        return true;  // No element: its pointer and strides are never used.
      }
    }
    return check_memory(i, tensor);
  }

  [[gnu::cold]] bool wrong_dtype(std::size_t i) const {
    std::string allowed;
    for (const DType dtype : bound_.op.args[i].dtypes) {
      allowed += fmt::format("{}{}", allowed.empty() ? "" : " or ", dtype_name(dtype));
    }
    return wrong(i, "dtype " + allowed, dtype_text(args_[i].tensor().dtype));
  }

  bool check_shape(std::size_t i, const DLTensor& tensor) {
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
        if (!set_symbol(i, shape[axis].symbol, extent)) {
          return false;
        }
      }
    }
    return true;
  }

  bool has_rank(std::size_t i, int rank) const {
    const auto described = static_cast<int>(bound_.args[i].shape.size());
    return bound_.args[i].has_leading ? rank >= described - 1 && rank <= Tensor::kMaxRank
                                      : rank == described;
  }

  // Once all symbols are known.
  bool check_derived_extents() const {
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
    return true;
  }

  bool set_symbol(std::size_t i, int symbol, std::int64_t extent) {
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
    return true;
  }

  [[gnu::cold]] bool wrong_shape(std::size_t i, const std::string& where) const {
    std::string shape;
    for (const Dim& dim : bound_.op.args[i].shape) {
      shape += shape.empty() ? "" : ", ";
      shape += dim.text();
    }
    const DLTensor& tensor = args_[i].tensor();
    // Nothing says that a rank that no tensor has is the size of an array.
    const bool is_rank = tensor.ndim >= 0 && tensor.ndim <= Tensor::kMaxRank;
    return wrong(i, fmt::format("shape [{}]{}", shape, where),
                 is_rank ? list(tensor.shape, tensor.ndim) : fmt::format("rank {}", tensor.ndim));
  }

  bool check_device(std::size_t i, const DLDevice& device) {
    const bool host_memory = bound_.args[i].host_memory;
    if (host_memory && device.device_type == kDLCUDAHost) {
      return true;
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
    return true;
  }

  // Pointer, strides and alignment of a tensor that has elements.
  bool check_memory(std::size_t i, const DLTensor& tensor) {
    if (tensor.data == nullptr && has_pointers_) {
      return wrong(i, "a device pointer", "null");
    }
    const std::int64_t alignment = alignment_of(i, tensor);
    if (const std::int64_t elements = plain_elements(tensor, alignment);
        elements != 0 && (!has_pointers_ || starts_at_multiple(tensor, alignment))) {
      place(i, {address(tensor), elements * (tensor.dtype.bits / 8), true});
      return true;
    }
    return check_any_memory(i, tensor);
  }

  // One that is not plain, or is wrong.
  [[gnu::noinline]] bool check_any_memory(std::size_t i, const DLTensor& tensor) {
    const Memory memory = memory_of(tensor);
    if (!check_strides(i, tensor, memory)) {
      return false;
    }
    if (!set_extent(i, tensor, memory)) {
      return false;
    }
    return check_alignment(i, tensor, memory);
  }

  bool check_strides(std::size_t i, const DLTensor& tensor, const Memory& memory) const {
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
    return true;
  }

  bool set_extent(std::size_t i, const DLTensor& tensor, const Memory& memory) {
    const std::optional<Footprint> footprint = footprint_of(tensor, memory);
    if (!footprint) {
      return wrong(i, "a tensor that fits in memory", layout_text(tensor, memory));
    }
    if (bound_.args[i].written && overlaps_itself(*footprint)) {
      return wrong(i, "rows that do not overlap", layout_text(tensor, memory));
    }
    place(i, *footprint);
    return true;
  }

  void place(std::size_t i, const Extent& extent) {
    places_[placed_] = {extent.begin, extent.span, extent.dense, static_cast<std::uint8_t>(i)};
    ++placed_;
  }

  // Natural alignment is the least that any argument needs.
  std::int64_t alignment_of(std::size_t i, const DLTensor& tensor) const {
    return std::max<std::int64_t>(bound_.args[i].alignment, tensor.dtype.bits / 8);
  }

  static bool starts_at_multiple(const DLTensor& tensor, std::int64_t alignment) {
    return (address(tensor) & static_cast<std::uint64_t>(alignment - 1)) == 0;
  }

  bool check_alignment(std::size_t i, const DLTensor& tensor, const Memory& memory) const {
    const std::int64_t size = tensor.dtype.bits / 8;
    const std::int64_t alignment = alignment_of(i, tensor);
    if (has_pointers_ && !starts_at_multiple(tensor, alignment)) {
      return wrong(i, fmt::format("an address aligned to {} bytes", alignment),
                   fmt::format("{:#x}", address(tensor)));
    }
    for (std::size_t axis = 0; axis + 1 < static_cast<std::size_t>(tensor.ndim); ++axis) {
      const std::int64_t stride = memory.strides[axis];
      if (tensor.shape[axis] > 1 && stride * size % alignment != 0) {
        return wrong(i, fmt::format("each row to start on a {}-byte boundary", alignment),
                     fmt::format("a stride of {} elements ({} bytes) along axis {}", stride,
                                 stride * size, axis));
      }
    }
    return true;
  }

  bool check_overlap(bool exact) const {
    for (std::size_t i = 0; i < placed_; ++i) {
      const Place& a = places_[i];
      for (std::size_t j = i + 1; j < placed_; ++j) {
        const Place& b = places_[j];
        if (either_written(a, b) && spans_intersect(a.extent(), b.extent()) &&
            overlap_counts(a, b, exact)) {
          return overlap(a, b);
        }
      }
    }
    return true;
  }

  /// Where an argument's memory lies.
  struct Place {
    std::uint64_t begin;
    std::int64_t span;
    bool dense;
    std::uint8_t arg;

    Extent extent() const { return {begin, span, dense}; }
  };

  bool either_written(const Place& a, const Place& b) const {
    return bound_.args[a.arg].written || bound_.args[b.arg].written;
  }

  // Of two tensors whose spans intersect.
  bool overlap_counts(const Place& first, const Place& second, bool exact) const {
    if (first.dense && second.dense) {
      return true;
    }
    if (!exact) {
      return false;
    }
    const DLTensor& a = args_[first.arg].tensor();
    const DLTensor& b = args_[second.arg].tensor();
    return share_a_byte(*footprint_of(a, memory_of(a)), *footprint_of(b, memory_of(b)));
  }

  [[gnu::cold]] bool overlap(const Place& a, const Place& b) const {
    const Place& written = bound_.args[b.arg].written ? b : a;
    const Place& other = bound_.args[b.arg].written ? a : b;
    const auto range = [&](const Place& place) {
      return fmt::format("[{:#x}, {:#x})", place.begin,
                         place.begin + static_cast<std::uint64_t>(place.span));
    };
    return wrong(written.arg, "memory of its own, since it is written",
                 fmt::format("{}, which shares bytes with argument \"{}\" at {}", range(written),
                             bound_.op.args[other.arg].name, range(other)));
  }

  const BoundOp& bound_;
  std::span<const Arg> args_;
  Problem& problem_;
  int& device_;
  std::string& failure_;
  std::array<std::uint8_t, Problem::kMaxSymbols>
      set_by_{};  // The argument that gave a symbol its value.
  std::uint8_t device_set_by_ = kNone;
  bool has_pointers_ = true;
  // Of the tensors that have memory, in their order. Only the first placed_ are set, since that
  // takes longer than all else for most calls.
  std::array<Place, Problem::kMaxArgs> places_;
  std::size_t placed_ = 0;
};

Status run_check(const BoundOp& bound, std::span<const Arg> args, CallCheck::Depth depth,
                 Problem& problem, int& device, Recheck* recheck) {
  for (std::size_t symbol = 0; symbol < bound.names.symbols.size(); ++symbol) {
    problem.set_dim(symbol, 0);
  }
  device = -1;
  std::string failure;
  CallCheck check(bound, args, problem, device, failure);
  if (!check.run(depth)) {
    return fail(ErrorCode::kInvalidArgument, std::move(failure));
  }
  if (recheck != nullptr) {
    *recheck = check.recheck();
  }
  return {};
}

}  // namespace

Status check_call(const BoundOp& bound, std::span<const Arg> args, bool exact_overlap,
                  Problem& problem, int& device, Recheck* recheck) {
  const auto depth = exact_overlap ? CallCheck::Depth::kExactOverlap : CallCheck::Depth::kPointers;
  return run_check(bound, args, depth, problem, device, recheck);
}

[[gnu::hot]] bool passes(const BoundOp& bound, const Recheck& recheck, std::span<const Arg> args) {
  std::array<std::uint64_t, Problem::kMaxArgs> begins;  // Only as many as there are are set.
  std::uint64_t* begin = begins.data();
  for (const Recheck::Memory& memory : recheck.memory) {
    const DLTensor& tensor = args[memory.arg].tensor();
    *begin = address(tensor);
    if (tensor.data == nullptr || (*begin & memory.misaligned) != 0) [[unlikely]] {
      return false;
    }
    ++begin;
  }
  for (const auto [first, second] : recheck.apart) {
    if (spans_intersect({begins[first], recheck.memory[first].span, true},
                        {begins[second], recheck.memory[second].span, true})) [[unlikely]] {
      return false;
    }
  }
  for (const Recheck::Scalar& scalar : recheck.scalars) {
    if (!value_fits(scalar.type, args[scalar.arg])) [[unlikely]] {
      return false;
    }
  }
  return !recheck.scalar_contract ||
         bound.op.scalar_contract(*recheck.scalar_contract, Scalars(bound.names, args.data()))
             .empty();
}

Status check_shapes(const BoundOp& bound, std::span<const Arg> args, Problem& problem,
                    int& device) {
  return run_check(bound, args, CallCheck::Depth::kShapes, problem, device, nullptr);
}

std::string policy_reason(const BoundOp& bound, const Problem& problem) {
  return bound.op.policy ? bound.op.policy(problem) : std::string();
}

}  // namespace kiln::registry
