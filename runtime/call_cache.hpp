#pragma once

/// \file
/// Calls that were checked and planned before.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <kiln/tensor.hpp>

#include "runtime/lock_free_table.hpp"
#include "runtime/plan.hpp"
#include "trait_registry/check.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// The plan of a call that is like one before it, of which only pointers and the values of scalars
/// are left to be checked. Two calls are alike that are of one op and have arguments of the same
/// kinds, and tensors of the same dtypes, devices, shapes and strides. find() takes no lock and
/// allocates nothing. Refers to plans, and owns none.
class CallCache {
 public:
  /// Past this many, others are checked and looked up among the plans each time.
  static constexpr std::size_t kMaxCalls = std::size_t{1} << 14;

  /// Null for a call that is like none before, and for one that does not keep its op's contract.
  const Plan* find(const registry::BoundOp& bound, std::span<const Arg> args) const noexcept;

  /// Keeps what was found of a call that passed check_call: `plan` stays until clear().
  void insert(const registry::BoundOp& bound, std::span<const Arg> args, registry::Recheck recheck,
              const Plan* plan);

  /// Whether insert() would keep nothing.
  bool full() const noexcept { return table_.full(); }

  /// No other thread may be using the cache.
  void clear() { table_.clear(); }

 private:
  struct Node {
    std::uint64_t hash;
    std::vector<std::uint64_t> words;
    const Plan* plan;
    registry::Recheck recheck;
  };

  LockFreeTable<Node> table_{kMaxCalls};
};

}  // namespace kiln::runtime
