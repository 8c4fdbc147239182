#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <kiln/op.hpp>

#include "runtime/lock_free_table.hpp"
#include "runtime/plan.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// What tells one plan of an engine from another: the op, the device, and the shapes, dtypes and
/// presence of the arguments.
struct PlanKey {
  const registry::BoundOp* bound;
  int device;
  const Problem& problem;  ///< Its target and PDL follow from the device and the engine.
};

/// Whether two calls can share a plan: op, device, symbols, and the presence and dtype of
/// arguments.
bool same_plan(const PlanKey& a, const PlanKey& b) noexcept;

/// Plans by key. find() takes no lock and allocates nothing; insert() takes one. A plan stays where
/// it is until clear().
class PlanCache {
 public:
  /// An engine that sees endlessly many shapes must not grow endlessly: past this many plans, new
  /// ones are not kept (see insert).
  static constexpr std::size_t kMaxPlans = std::size_t{1} << 16;

  /// Null when there is none.
  const Plan* find(const PlanKey& key) const noexcept;

  /// Keeps `plan` and gives its address, or the address of one inserted before under the same key.
  /// When the cache is full it gives null and leaves `plan` alone.
  const Plan* insert(const PlanKey& key, std::unique_ptr<const Plan>& plan);

  /// Destroys every plan. No other thread may be using the cache.
  void clear() { table_.clear(); }

 private:
  struct Node {
    const registry::BoundOp* bound;
    int device;
    Problem problem;
    std::uint64_t hash;
    std::unique_ptr<const Plan> plan;
  };

  static std::uint64_t hash(const PlanKey& key) noexcept;

  LockFreeTable<Node> table_{kMaxPlans};
};

}  // namespace kiln::runtime
