#include "trait_registry/registry.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "trait_registry/bind.hpp"

namespace kiln::registry {
namespace {

// Levenshtein distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

// A name's ends and length: enough to tell most apart, and a launch by name works it out.
std::uint64_t hash_of(std::string_view name) noexcept {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  if (name.size() >= sizeof(first)) [[likely]] {
    std::memcpy(&first, name.data(), sizeof(first));
    std::memcpy(&last, name.data() + name.size() - sizeof(last), sizeof(last));
  } else {
    std::memcpy(&first, name.data(), name.size());
  }
  const std::uint64_t hash =
      (first ^ name.size()) * 0x9E3779B97F4A7C15U + last * 0xC2B2AE3D27D4EB4FU;
  return hash ^ hash >> 32;
}

constexpr std::size_t kNoMatch = static_cast<std::size_t>(-1);

// Smaller is nearer: typing slips, then a part of the name.
std::size_t distance_of_names(std::string_view asked, std::string_view name) {
  const std::size_t distance = edit_distance(asked, name);
  if (distance <= std::max<std::size_t>(2, name.size() / 4)) {
    return distance;
  }
  constexpr std::size_t kShortestPart = 3;
  const bool is_part =
      asked.size() >= kShortestPart && (name.find(asked) != std::string_view::npos);
  return is_part ? name.size() : kNoMatch;
}

}  // namespace

Registry::Registry(std::vector<std::string> options) : options_(std::move(options)) {
  for (Op& op : builtin_ops()) {
    if (Result<const BoundOp*> added = insert(std::move(op), true); !added) {
      throw Error(ErrorCode::kInternal, "a built-in op is malformed: " + added.error().message);
    }
  }
}

Registry::~Registry() = default;

Result<const BoundOp*> Registry::add(Op op) {
  return insert(std::move(op), false);
}

Result<const BoundOp*> Registry::insert(Op op, bool builtin) {
  auto node = std::make_unique<Node>();
  for (const std::string& option : options_) {
    if (std::find(op.options.begin(), op.options.end(), option) == op.options.end()) {
      op.options.push_back(option);
    }
  }
  if (Status status = bind(std::move(op), builtin, node->bound); !status) {
    return tl::unexpected(std::move(status.error()));
  }
  const Op& added = node->bound.op;
  const std::lock_guard lock(mutex_);
  if (const BoundOp* taken = lookup(added.name); taken != nullptr) {
    return fail(
        ErrorCode::kDuplicateOp,
        fmt::format("op \"{}\" is registered already, {}{}: names are never replaced, so "
                    "register it once per engine or give one of the two another name",
                    added.name, taken->builtin ? "as a built-in op" : "by this engine's owner",
                    taken->op.summary.empty() ? "" : " (" + taken->op.summary + ")"));
  }
  std::atomic<Node*>& bucket = buckets_[hash_of(added.name) % buckets_.size()];
  node->next = bucket.load(std::memory_order_relaxed);
  nodes_.push_back(std::move(node));
  bucket.store(nodes_.back().get(), std::memory_order_release);
  return &nodes_.back()->bound;
}

[[gnu::hot]] const BoundOp* Registry::lookup(std::string_view name) const noexcept {
  const std::size_t bucket = hash_of(name) % buckets_.size();
  for (const Node* node = buckets_[bucket].load(std::memory_order_acquire); node != nullptr;
       node = node->next) {
    if (node->bound.op.name == name) {
      return &node->bound;
    }
  }
  return nullptr;
}

Result<const BoundOp*> Registry::find(std::string_view name) const {
  if (const BoundOp* bound = lookup(name); bound != nullptr) {
    return bound;
  }
  return tl::unexpected(unknown(name));
}

Failure Registry::unknown(std::string_view name) const {
  std::vector<std::pair<std::size_t, std::string_view>> near;
  const std::vector<const BoundOp*> ops = all();
  for (const BoundOp* bound : ops) {
    if (const std::size_t distance = distance_of_names(name, bound->op.name);
        distance != kNoMatch) {
      near.emplace_back(distance, bound->op.name);
    }
  }
  std::sort(near.begin(), near.end());
  constexpr std::size_t kMostShown = 3;
  near.resize(std::min(near.size(), kMostShown));
  std::string message = fmt::format("no op is named \"{}\"", name);
  for (std::size_t i = 0; i < near.size(); ++i) {
    message += fmt::format("{}\"{}\"", i == 0 ? "; did you mean " : " or ", near[i].second);
  }
  message +=
      near.empty() ? fmt::format("; {} are registered, none of a similar name", ops.size()) : "?";
  return {ErrorCode::kUnknownOp, message};
}

std::vector<const BoundOp*> Registry::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<const BoundOp*> ops;
  ops.reserve(nodes_.size());
  for (const std::unique_ptr<Node>& node : nodes_) {
    ops.push_back(&node->bound);
  }
  return ops;
}

}  // namespace kiln::registry
