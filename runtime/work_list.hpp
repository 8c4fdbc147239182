#pragma once

#include <span>
#include <vector>

#include <kiln/engine.hpp>

#include "base/result.hpp"
#include "runtime/kernel_provider.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// Kernels to obtain together: a whole group of registry::compile_groups, or one kernel.
struct WorkItem {
  std::vector<Candidate> members;
  double cost = 0;  ///< A guess at how long it compiles, to be compared with another item's only.
};

/// What many kernels come to as work for a compiler.
struct WorkList {
  std::vector<WorkItem> items;                 ///< The dearest first, so that all end together.
  std::vector<PrebuildReport::Failed> failed;  ///< Variants that are no kernel.
  std::size_t kernels() const noexcept;

  /// Kernels that are wanted twice count once. A group is compiled as one program only if all of it
  /// is wanted, so that a kernel's image is its group's or its own, and never that of another set.
  /// Pure: the same on each machine.
  static WorkList of(const registry::Registry& registry, std::span<const Variant> wanted);

  /// The part of one machine: every item falls to exactly one, and all parts cost about the same.
  void keep(const Shard& shard);
};

}  // namespace kiln::runtime
