#pragma once

/// \file
/// The norms and mxfp8_quantize on rows of one width: inputs and expected outputs of a block of
/// rows, and batches that repeat the block, so that the reference need not compute every batch.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "tests/gpu/support/cuda.hpp"

namespace kiln::gpu {

/// Which op, and what it has.
struct NormOp {
  const char* name;
  bool norm;       ///< Takes w and eps and gives y.
  bool streams;    ///< x has four streams, which pre weighs.
  bool quantizes;  ///< Gives q and sf.
};
inline constexpr NormOp kNormOps[] = {{"rmsnorm", true, false, false},
                                      {"mxfp8_quantize", false, false, true},
                                      {"rmsnorm_mxfp8", true, false, true},
                                      {"hc_combine_norm", true, true, false},
                                      {"hc_combine_norm_mxfp8", true, true, true}};
inline constexpr float kNormEps = 1e-6F;

/// Inputs on the device and expected outputs of kRows rows.
class NormData {
 public:
  static constexpr std::int64_t kRows = 251;

  /// Random values times `magnitude`. `pre` is bf16 or f32.
  NormData(const NormOp& op, std::int64_t k, float magnitude, DType pre = DType::kF32,
           std::uint64_t seed = 1);
  /// kRows rows of x given.
  NormData(const NormOp& op, std::int64_t k, std::vector<std::uint16_t> x, DType pre = DType::kF32,
           std::uint64_t seed = 1);

  std::int64_t width() const { return op.streams ? 4 * k : k; }  ///< Of x.
  std::size_t pre_row_bytes() const { return pre_dtype == DType::kF32 ? 16 : 8; }

  NormOp op;
  std::int64_t k;
  DType pre_dtype;
  std::vector<std::uint16_t> x;
  std::unique_ptr<Buffer> x_device, pre_device, w_device;
  std::vector<std::uint16_t> y;      ///< [kRows, k]; for mxfp8_quantize, x.
  std::vector<std::uint8_t> q;       ///< [kRows, k]
  std::vector<std::uint8_t> scales;  ///< [kRows, k / 32], not swizzled.
};

/// Device memory of a batch of m rows, row i being row (first + i) % kRows of the data.
class NormBatch {
 public:
  /// `gap` is the number of elements between rows of x; the gap holds NaN. `sf_offset` moves the
  /// scales off their alignment.
  NormBatch(const NormData& data, std::int64_t m, std::int64_t gap = 0, std::size_t sf_offset = 0);

  void set_rows(const NormData& data, std::int64_t first);
  void poison(std::uint8_t byte);
  /// Launches the data's op, or the op of that name with the same arguments. `w` overrides weights.
  void launch(const LaunchOptions& options = {}, const char* op = nullptr,
              const Buffer* w = nullptr) const;
  /// Empty when every bit of every output is right and nothing else was written.
  std::string check(const NormData& data, std::int64_t first) const;

  const Buffer& x() const { return x_; }
  GuardedBuffer& y() { return y_; }
  GuardedBuffer& q() { return q_; }
  GuardedBuffer& sf() { return sf_; }

 private:
  std::string check_quantized(const NormData& data, std::int64_t first) const;
  std::string check_scales(const NormData& data, std::int64_t first) const;

  const NormData* data_;
  std::int64_t m_;
  std::int64_t row_stride_;
  std::size_t sf_offset_;
  std::size_t sf_bytes_;
  std::uint8_t poison_ = 0;
  Buffer x_;
  Buffer pre_;
  GuardedBuffer y_;
  GuardedBuffer q_;
  GuardedBuffer sf_;
};

enum class NormMode { kEager, kReplay };

/// Runs one batch, from two starts with the inputs changed between replays, and says what is wrong.
std::string run_norm(const NormData& data, NormBatch& batch, std::int64_t m, bool pdl,
                     NormMode mode, const char* op = nullptr);

}  // namespace kiln::gpu
