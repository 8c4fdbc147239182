#include "runtime/plan_cache.hpp"

#include <bit>
#include <utility>

namespace kiln::runtime {
namespace {

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 32);
}

}  // namespace

bool same_plan(const PlanKey& a, const PlanKey& b) noexcept {
  if (a.bound != b.bound || a.device != b.device) {
    return false;
  }
  const Problem::Names& names = a.bound->names;
  for (std::size_t i = 0; i < names.symbols.size(); ++i) {
    if (a.problem.dim_at(i) != b.problem.dim_at(i)) {
      return false;
    }
  }
  for (std::size_t i = 0; i < names.args.size(); ++i) {
    if (a.problem.arg_code(i) != b.problem.arg_code(i)) {
      return false;
    }
  }
  return true;
}

std::uint64_t PlanCache::hash(const PlanKey& key) noexcept {
  std::uint64_t hash = mix(std::bit_cast<std::uint64_t>(key.bound),
                           static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.device)));
  const Problem::Names& names = key.bound->names;
  for (std::size_t i = 0; i < names.symbols.size(); ++i) {
    hash = mix(hash, static_cast<std::uint64_t>(key.problem.dim_at(i)));
  }
  for (std::size_t i = 0; i < names.args.size(); ++i) {
    hash = mix(hash, key.problem.arg_code(i));
  }
  return hash;
}

const Plan* PlanCache::find(const PlanKey& key) const noexcept {
  const Node* const node = table_.find(hash(key), [&](const Node& there) {
    return same_plan({there.bound, there.device, there.problem}, key);
  });
  return node != nullptr ? node->plan.get() : nullptr;
}

const Plan* PlanCache::insert(const PlanKey& key, std::unique_ptr<const Plan>& plan) {
  const std::uint64_t key_hash = hash(key);
  const Node* const node = table_.insert(
      key_hash,
      [&](const Node& there) {
        return same_plan({there.bound, there.device, there.problem}, key);
      },
      [&] {
        return std::make_unique<const Node>(
            Node{key.bound, key.device, key.problem, key_hash, std::move(plan)});
      });
  return node != nullptr ? node->plan.get() : nullptr;
}

}  // namespace kiln::runtime
