#pragma once

/// \file
/// A hash table that is read without a lock.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace kiln::runtime {

/// Nodes by their `hash` and what else tells them apart. find() takes no lock and allocates
/// nothing; insert() takes one. A node stays where it is until clear().
template <class Node>
class LockFreeTable {
 public:
  /// Past so many nodes, new ones are not kept.
  explicit LockFreeTable(std::size_t most) : most_(most) { clear(); }

  /// The node of this hash for which `same` is true; null when there is none.
  template <class Same>
  const Node* find(std::uint64_t hash, const Same& same) const noexcept {
    return find_in(*current_.load(std::memory_order_acquire), hash, same);
  }

  /// The node that find() finds, or else, kept from now on, the one that `make` gives: a
  /// std::unique_ptr<const Node>. When the table is full it gives null and makes nothing.
  template <class Same, class Make>
  const Node* insert(std::uint64_t hash, const Same& same, const Make& make) {
    const std::lock_guard lock(mutex_);
    if (const Node* node = find_in(*tables_.back(), hash, same)) {
      return node;
    }
    if (nodes_.size() >= most_) {
      return nullptr;
    }
    if ((nodes_.size() + 1) * 2 > tables_.back()->slots.size()) {
      grow();
    }
    nodes_.push_back(make());
    full_.store(nodes_.size() == most_, std::memory_order_relaxed);
    place(*tables_.back(), nodes_.back().get());
    return nodes_.back().get();
  }

  /// Destroys every node. No other thread may be using the table.
  void clear() {
    const std::lock_guard lock(mutex_);
    auto empty = std::make_unique<Table>(kFirstCapacity);
    current_.store(empty.get(), std::memory_order_release);
    tables_.clear();
    tables_.push_back(std::move(empty));
    nodes_.clear();
    full_.store(false, std::memory_order_relaxed);
  }

  /// Whether insert() would keep nothing new.
  bool full() const noexcept { return full_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kFirstCapacity = 64;

  // Open addressing with linear probing; at most half full, so a probe always ends.
  struct Table {
    explicit Table(std::size_t capacity) : slots(capacity) {}
    std::vector<std::atomic<const Node*>> slots;
  };

  template <class Same>
  static const Node* find_in(const Table& table, std::uint64_t hash, const Same& same) noexcept {
    const std::size_t mask = table.slots.size() - 1;
    for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
      const Node* node = table.slots[slot].load(std::memory_order_acquire);
      if (node == nullptr || (node->hash == hash && same(*node))) [[likely]] {
        return node;
      }
    }
  }

  static void place(Table& table, const Node* node) noexcept {
    const std::size_t mask = table.slots.size() - 1;
    std::size_t slot = node->hash & mask;
    while (table.slots[slot].load(std::memory_order_relaxed) != nullptr) {
      slot = (slot + 1) & mask;
    }
    table.slots[slot].store(node, std::memory_order_release);
  }

  void grow() {
    auto larger = std::make_unique<Table>(tables_.back()->slots.size() * 2);
    for (const auto& node : nodes_) {
      place(*larger, node.get());
    }
    current_.store(larger.get(), std::memory_order_release);
    tables_.push_back(std::move(larger));
  }

  std::atomic<Table*> current_;
  std::atomic<bool> full_{false};
  const std::size_t most_;
  std::mutex mutex_;  // Guards what follows.
  // A reader may still be in an outgrown table, so all are kept: together as large as the current.
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<const Node>> nodes_;
};

}  // namespace kiln::runtime
