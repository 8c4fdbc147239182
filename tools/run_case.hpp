#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <kiln/op.hpp>
#include <kiln/target.hpp>
#include <kiln/tensor.hpp>

namespace kiln::tools {

/// A contiguous bf16 tensor on the host, as raw bit patterns.
struct HostTensor {
  const ArgSpec* arg = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<std::uint16_t> data;

  std::size_t bytes() const noexcept { return data.size() * sizeof(std::uint16_t); }
  bool is_output() const noexcept { return arg->access != Access::kRead; }
};

/// One random call of an op. The tensors are in the order of the op's arguments.
struct RunCase {
  std::vector<HostTensor> tensors;

  /// Random inputs from `seed`; the op's one free symbol is set to `m`. Throws Error when `kiln
  /// run` has no reference for the op.
  static RunCase make(const Op& op, std::int64_t m, std::uint64_t seed);

  /// Fills the outputs with what the reference computes for a device of this capability.
  void compute_reference(const Op& op, ComputeCapability device);
};

}  // namespace kiln::tools
