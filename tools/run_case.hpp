#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <kiln/op.hpp>
#include <kiln/target.hpp>

namespace kiln::tools {

/// A contiguous bf16 tensor on the host, as raw bit patterns.
struct HostTensor {
  const ArgSpec* arg = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<std::uint16_t> data;

  std::size_t bytes() const noexcept { return data.size() * sizeof(std::uint16_t); }
  bool is_output() const noexcept { return arg->access != Access::kRead; }
};

/// One call of an op on random data, on the host. Serves ops whose arguments are all bf16 tensors
/// and whose only symbol is the number of rows.
class RunCase {
 public:
  /// Throws Error when there is no reference for the op. `op` must outlive the case.
  RunCase(const Op& op, std::int64_t m, std::uint64_t seed);

  /// In the order of the op's arguments.
  const std::vector<HostTensor>& tensors() const noexcept { return tensors_; }

  /// Fills the outputs with what the reference computes for a device of this capability.
  void compute_reference(ComputeCapability device);

 private:
  void (*compute_)(std::vector<HostTensor>& tensors, ComputeCapability device);
  std::vector<HostTensor> tensors_;
};

}  // namespace kiln::tools
