#include "runtime/call_cache.hpp"

#include <array>
#include <bit>
#include <utility>

namespace kiln::runtime {
namespace {

/// What calls that are alike have in common, in words that no other call has.
class Likeness {
 public:
  Likeness(const registry::BoundOp& bound, std::span<const Arg> args) noexcept {
    // Kept in registers meanwhile, and small: it runs at each launch.
    std::uint64_t* end = words_.data();
    std::uint64_t sum = 0;
    std::uint64_t factor = kFactor;
    const auto add = [&](std::uint64_t word) {
      *end++ = word;
      // Each word has a factor of its own, so that no product waits for the one before it.
      sum += word * factor;
      factor += 2 * kFactor;
    };
    add(std::bit_cast<std::uint64_t>(&bound));
    for (const Arg& arg : args) {
      const auto room = static_cast<std::size_t>(words_.data() + words_.size() - end);
      if (arg.kind() != Arg::Kind::kTensor) {
        if (room == 0) [[unlikely]] {
          return;
        }
        add(static_cast<std::uint64_t>(arg.kind()));
        continue;
      }
      const DLTensor& tensor = arg.tensor();
      const std::size_t rank = static_cast<std::uint32_t>(tensor.ndim);  // None is negative.
      if (2 + 2 * rank > room || (tensor.shape == nullptr && rank != 0)) [[unlikely]] {
        return;
      }
      const bool strided = tensor.strides != nullptr;
      add(std::uint64_t{std::bit_cast<std::uint32_t>(tensor.dtype)} << 32 | rank << 16 |
          (strided ? 256U : 0U) | static_cast<std::uint64_t>(Arg::Kind::kTensor));
      add(std::bit_cast<std::uint64_t>(tensor.device));
      for (std::size_t axis = 0; axis < rank; ++axis) {
        add(static_cast<std::uint64_t>(tensor.shape[axis]));
      }
      for (std::size_t axis = 0; axis < (strided ? rank : 0); ++axis) {
        add(static_cast<std::uint64_t>(tensor.strides[axis]));
      }
    }
    count_ = static_cast<std::size_t>(end - words_.data());
    hash_ = sum ^ sum >> 32;
  }

  /// Otherwise no op takes such arguments.
  explicit operator bool() const noexcept { return count_ != 0; }
  std::uint64_t hash() const noexcept { return hash_; }
  std::vector<std::uint64_t> words() const { return {words_.data(), words_.data() + count_}; }

  bool operator==(const std::vector<std::uint64_t>& words) const noexcept {
    if (count_ != words.size()) [[unlikely]] {
      return false;
    }
    // One at a time, as they were just written: a wider read would wait for all of those writes.
    for (std::size_t i = 0; i < count_; ++i) {
      if (words_[i] != words[i]) [[unlikely]] {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15U;
  static constexpr std::size_t kMost = 1 + Problem::kMaxArgs * (2 + 2 * Tensor::kMaxRank);

  std::array<std::uint64_t, kMost> words_;  // Only the first count_ are set.
  std::size_t count_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace

[[gnu::hot]] const Plan* CallCache::find(const registry::BoundOp& bound,
                                         std::span<const Arg> args) const noexcept {
  const Likeness call(bound, args);
  if (!call) [[unlikely]] {
    return nullptr;
  }
  const Node* const node =
      table_.find(call.hash(), [&](const Node& there) noexcept { return call == there.words; });
  return node != nullptr && registry::passes(bound, node->recheck, args) ? node->plan : nullptr;
}

void CallCache::insert(const registry::BoundOp& bound, std::span<const Arg> args,
                       registry::Recheck recheck, const Plan* plan) {
  const Likeness call(bound, args);
  if (!call) {
    return;
  }
  table_.insert(
      call.hash(), [&](const Node& there) noexcept { return call == there.words; },
      [&] {
        return std::make_unique<const Node>(
            Node{call.hash(), call.words(), plan, std::move(recheck)});
      });
}

}  // namespace kiln::runtime
