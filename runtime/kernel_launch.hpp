#pragma once

/// \file
/// One kernel's launch, with all in place that does not change from call to call.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <kiln/engine.hpp>

#include "runtime/driver/driver.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// One kernel of a plan, resolved.
struct PlanStep {
  CUfunction function = nullptr;
  Geometry geometry;
  /// The kernel may be launched with the PDL attribute: its PDL trait is on, the device has PDL,
  /// and its code holds the wait.
  bool pdl = false;
  /// The parameters, in the signature's order. Beside each its value, where that does not change
  /// from call to call (dims and computed ones).
  struct Slot {
    registry::BoundParam param;
    std::uint64_t constant = 0;
  };
  std::vector<Slot> slots;
  Variant variant;
};

/// What a launch gives the driver, on its caller's stack: a launch fills in what is its own, and
/// copies the rest whole. Between two launches the driver's code displaces ours from the
/// processor's caches, so what counts here is how little code and data a call touches, and that it
/// seldom branches.
class KernelLaunch {
 public:
  /// More parameters than any kernel has use for; a kernel with more is refused when planned.
  static constexpr std::size_t kMaxParams = 64;

  explicit KernelLaunch(const PlanStep& step);

  /// A parameter's value in the low bytes of its slot. The driver copies as many bytes as the
  /// kernel's signature says, so on a little-endian host one slot size serves every type.
  struct Params {
    std::array<std::uint64_t, kMaxParams> values;  // Only as many as there are parameters are set,
    std::array<void*, kMaxParams> pointers;        // to a whole chunk.
  };
  void pack(std::span<const Arg> args, const LaunchOptions& options,
            Params& params) const noexcept {
    std::size_t first = 0;
    do {
      std::memcpy(&params.values[first], constants_.data() + first, kChunk * sizeof(std::uint64_t));
      for (std::size_t i = 0; i < kChunk; ++i) {
        params.pointers[first + i] = &params.values[first + i];
      }
      first += kChunk;
    } while (first < constants_.size());
    const Fill* fill = fills_.data();
    for (const Fill* const end = fill + data_; fill != end; ++fill) {
      const Arg& arg = args[fill->arg];
      if (arg.kind() == Arg::Kind::kTensor) [[likely]] {
        const DLTensor& tensor = arg.tensor();
        params.values[fill->slot] = std::bit_cast<std::uint64_t>(tensor.data) + tensor.byte_offset;
      }
    }
    for (const Fill* const end = fill + strides_; fill != end; ++fill) {
      const Arg& arg = args[fill->arg];
      if (arg.kind() == Arg::Kind::kTensor) [[likely]] {
        params.values[fill->slot] = stride_of(arg.tensor(), fill->axis);
      }
    }
    for (const Fill* const end = fill + scalars_; fill != end; ++fill) {
      params.values[fill->slot] = scalar_of(args[fill->arg], fill->type);
    }
    if (options.workspace != nullptr || !options.constants_ready) [[unlikely]] {
      pack_options(options, params);
    }
  }

  /// The driver's configuration, for a launch that has no attributes of its own.
  CUlaunchConfig config(CUstream stream, bool starts_early) const noexcept {
    CUlaunchConfig config = config_;
    config.hStream = stream;
    const unsigned skipped = starts_early ? 0 : pdl_;
    // The driver only reads them.
    config.attrs = const_cast<CUlaunchAttribute*>(attributes_.data()) + skipped;
    config.numAttrs -= skipped;
    return config;
  }

  CUfunction function() const noexcept { return function_; }

  /// Those of a launch that has some of its own.
  class Attributes {
   public:
    Attributes(CUlaunchConfig& config, const LaunchOptions& options) noexcept;

   private:
    std::array<CUlaunchAttribute, 5> all_;
  };

 private:
  static constexpr std::size_t kChunk = 8;

  /// What a call fills in: the slot, and which argument from.
  struct Fill {
    std::uint8_t slot;
    std::uint8_t arg;
    std::uint8_t axis;
    ScalarType type;
  };

  static std::uint64_t stride_of(const DLTensor& tensor, int axis) noexcept {
    if (tensor.strides != nullptr) {
      return static_cast<std::uint64_t>(tensor.strides[axis]);
    }
    std::int64_t stride = 1;
    for (int i = tensor.ndim; --i > axis;) {
      stride *= tensor.shape[i];
    }
    return static_cast<std::uint64_t>(stride);
  }
  static std::uint64_t scalar_of(const Arg& arg, ScalarType type) noexcept;
  void pack_options(const LaunchOptions& options, Params& params) const noexcept;
  void add_fills(const PlanStep& step, Param::Source source, std::uint8_t& count);
  void add_attributes(const PlanStep& step) noexcept;

  CUfunction function_;
  CUlaunchConfig config_{};
  unsigned pdl_ = 0;  // 1 when the first of the attributes is the PDL attribute.
  std::uint8_t data_ = 0;
  std::uint8_t strides_ = 0;
  std::uint8_t scalars_ = 0;
  std::uint8_t workspaces_ = 0;
  std::uint8_t switches_ = 0;
  // Every parameter's value that is not filled in, and zeros up to a whole chunk, of which there
  // is at least one.
  std::vector<std::uint64_t> constants_;
  std::vector<Fill> fills_;  // data_, strides_, scalars_, workspaces_, switches_.
  std::array<CUlaunchAttribute, 3> attributes_{};
};

}  // namespace kiln::runtime
