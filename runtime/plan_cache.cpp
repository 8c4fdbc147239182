#include "runtime/plan_cache.hpp"

#include <bit>
#include <utility>

namespace kiln::runtime {
namespace {

constexpr std::size_t kFirstCapacity = 64;

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 32);
}

}  // namespace

PlanCache::PlanCache() {
  clear();
}

void PlanCache::clear() {
  const std::lock_guard lock(mutex_);
  auto empty = std::make_unique<Table>(kFirstCapacity);
  current_.store(empty.get(), std::memory_order_release);
  tables_.clear();
  tables_.push_back(std::move(empty));
  nodes_.clear();
}

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

const PlanCache::Node* PlanCache::find_in(const Table& table, const PlanKey& key,
                                          std::uint64_t hash) noexcept {
  const std::size_t mask = table.slots.size() - 1;
  for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    const Node* node = table.slots[slot].load(std::memory_order_acquire);
    if (node == nullptr ||
        (node->hash == hash && same_plan({node->bound, node->device, node->problem}, key))) {
      return node;
    }
  }
}

const Plan* PlanCache::find(const PlanKey& key) const noexcept {
  const Node* node = find_in(*current_.load(std::memory_order_acquire), key, hash(key));
  return node != nullptr ? node->plan.get() : nullptr;
}

void PlanCache::place(Table& table, const Node* node) noexcept {
  const std::size_t mask = table.slots.size() - 1;
  std::size_t slot = node->hash & mask;
  while (table.slots[slot].load(std::memory_order_relaxed) != nullptr) {
    slot = (slot + 1) & mask;
  }
  table.slots[slot].store(node, std::memory_order_release);
}

void PlanCache::grow() {
  auto larger = std::make_unique<Table>(tables_.back()->slots.size() * 2);
  for (const auto& node : nodes_) {
    place(*larger, node.get());
  }
  current_.store(larger.get(), std::memory_order_release);
  tables_.push_back(std::move(larger));
}

const Plan* PlanCache::insert(const PlanKey& key, std::unique_ptr<const Plan>& plan) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t key_hash = hash(key);
  if (const Node* node = find_in(*tables_.back(), key, key_hash)) {
    return node->plan.get();
  }
  if (nodes_.size() >= kMaxPlans) {
    return nullptr;
  }
  if ((nodes_.size() + 1) * 2 > tables_.back()->slots.size()) {
    grow();
  }
  nodes_.push_back(std::make_unique<const Node>(
      Node{key.bound, key.device, key.problem, key_hash, std::move(plan)}));
  place(*tables_.back(), nodes_.back().get());
  return nodes_.back()->plan.get();
}

}  // namespace kiln::runtime
