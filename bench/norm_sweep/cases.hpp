#pragma once

/// \file
/// The shapes at which variants of the norm and MXFP8 ops are timed, and their tensors on the
/// device.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "tests/gpu/support/cuda.hpp"

namespace kiln::bench {

/// One op at one shape: m rows of k elements (of H for mhc_post_split_h).
struct Case {
  const char* op;
  std::int64_t m;
  std::int64_t k;
};
std::span<const Case> cases();

/// Bytes that a call must move: each input read once, each output written once.
std::int64_t bytes_of(const Case& which);

/// Those bytes at the copy rate of docs/peer_h200.md, at least one graph node.
double floor_us(const Case& which);

/// As many sets of tensors as make 256 MiB where a call moves more than 8 MiB, so that none is
/// still in the L2 cache when it is used again; else one.
class CaseTensors {
 public:
  explicit CaseTensors(const Case& which);

  /// Launches `op`, which takes the arguments of the case's op, on the next set.
  void launch(Engine& engine, OpHandle op, CUstream stream);

  /// The outputs of one call on poisoned tensors.
  std::vector<std::uint8_t> result(Engine& engine, OpHandle op, CUstream stream);

 private:
  struct Argument {
    std::size_t offset = 0;  ///< In a set.
    std::size_t bytes = 0;
    DType dtype = DType::kBF16;
    std::vector<std::int64_t> shape{};
    bool written = false;
    bool is_eps = false;
  };

  void add(DType dtype, std::vector<std::int64_t> shape, bool written = false);
  void add_eps();
  void describe(const Case& which);

  std::vector<Argument> arguments_;
  std::size_t set_bytes_ = 0;
  std::size_t sets_ = 1;
  std::size_t next_ = 0;
  std::vector<gpu::Buffer> memory_;  ///< One buffer: made once the size is known.
};

}  // namespace kiln::bench
