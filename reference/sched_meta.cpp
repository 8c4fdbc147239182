#include "reference/sched_meta.hpp"

#include <algorithm>
#include <cstddef>

namespace kiln::reference {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

std::int64_t length_of(const ScheduleInput& input, std::int64_t request) {
  if (input.topk == -1) {
    return (*input.seqlens_k)[at(request)];
  }
  std::int64_t length = input.topk_length ? (*input.topk_length)[at(request)] : input.topk;
  length = length == 0 ? 1 : length;
  if (input.extra_topk != 0) {
    length = (length + input.block_size - 1) / input.block_size * input.block_size;
    length += input.extra_topk_length ? (*input.extra_topk_length)[at(request)] : input.extra_topk;
  }
  return length;
}

class Walk {
 public:
  explicit Walk(const ScheduleInput& input) : input_(input) {
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < input.requests; ++i) {
      lengths_.push_back(length_of(input, i));
      last_blocks_.push_back(std::max<std::int64_t>(lengths_.back() - 1, 0) / input.block_size);
      total += last_blocks_.back() + 1 + input.overhead;
    }
    payload_ = (total + input.partitions - 1) / input.partitions + input.overhead;
    out_.num_splits.assign(at(input.requests + 1), 0);
  }

  Schedule run() {
    for (std::int64_t i = 0; i < input_.partitions; ++i) {
      partition();
    }
    return out_;
  }

 private:
  // Takes what the partition can pay for from where the one before it stopped.
  void take() {
    std::int64_t remain = payload_;
    while (request_ < input_.requests) {
      const std::int64_t rest = last_blocks_[at(request_)] + 1 - block_;
      if (remain >= rest + input_.overhead) {
        remain -= rest + input_.overhead;
        splits_ += split_ + 1;
        out_.num_splits[at(request_ + 1)] = static_cast<std::int32_t>(splits_);
        ++request_;
        block_ = 0;
        split_ = 0;
        continue;
      }
      if (remain - input_.overhead > 0) {
        block_ += remain - input_.overhead;
        ++split_;
      }
      return;
    }
  }

  void partition() {
    const bool idle = request_ == input_.requests;
    std::int64_t words[8] = {request_, 0,      idle ? last_blocks_[0] : block_,
                             0,        split_, block_ != 0 ? 1 : 0};
    take();
    const bool open = block_ > 0;
    words[1] = open ? request_ : request_ - 1;
    const std::int64_t length = lengths_[at(words[1])];
    const std::int64_t past_last = last_blocks_[at(words[1])] + 1;
    words[3] = open ? block_ : length == 0 ? 0 : past_last;
    words[6] = length != 0 && words[3] != past_last ? 1 : 0;
    if (words[0] == words[1]) {
      words[5] = words[6] = words[5] | words[6];
    }
    for (const std::int64_t word : words) {
      out_.meta.push_back(static_cast<std::int32_t>(word));
    }
  }

  const ScheduleInput& input_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> last_blocks_;
  std::int64_t payload_ = 0;
  // Where the next partition begins.
  std::int64_t request_ = 0;
  std::int64_t block_ = 0;
  std::int64_t split_ = 0;
  std::int64_t splits_ = 0;  // Of the requests that were taken.
  Schedule out_;
};

}  // namespace

Schedule flashmla_sched_meta(const ScheduleInput& input) {
  return Walk(input).run();
}

}  // namespace kiln::reference
