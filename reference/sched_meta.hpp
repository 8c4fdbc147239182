#pragma once

/// \file
/// The tile schedule of split-KV attention.

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::reference {

struct ScheduleInput {
  std::int64_t requests;
  std::int64_t partitions;
  std::int64_t block_size;
  std::int64_t overhead;        ///< Blocks that a request costs in a partition beside its own.
  std::int64_t topk = -1;       ///< -1: dense.
  std::int64_t extra_topk = 0;  ///< 0: no extra cache.
  std::optional<std::vector<std::int32_t>> seqlens_k{};  ///< Needed when dense.
  std::optional<std::vector<std::int32_t>> topk_length{};
  std::optional<std::vector<std::int32_t>> extra_topk_length{};
};

struct Schedule {
  std::vector<std::int32_t> meta;        ///< [partitions, 8]
  std::vector<std::int32_t> num_splits;  ///< [requests + 1]
};

/// Walks the partitions in order, each through the requests that it can pay for.
Schedule flashmla_sched_meta(const ScheduleInput& input);

}  // namespace kiln::reference
