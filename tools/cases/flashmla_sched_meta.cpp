#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "reference/sched_meta.hpp"
#include "tools/cases/engram_glue.hpp"

namespace kiln::tools::cases {
namespace {

constexpr std::int64_t kPartitions = 132;
constexpr std::int64_t kLongest = 131'072;

std::optional<std::vector<std::int32_t>> lengths(const HostCall& call, const char* arg) {
  if (!call.has(arg)) {
    return std::nullopt;
  }
  const auto values = call.tensor(arg).as<std::int32_t>();
  return std::vector<std::int32_t>(values.begin(), values.end());
}

std::int64_t scalar(const HostCall& call, const char* arg) {
  return call.has(arg) ? static_cast<std::int64_t>(call.scalar(arg)) : 0;
}

}  // namespace

// Dense: the case's topk is -1, so that the lengths of a sparse schedule would not be looked at.
OpCase flashmla_sched_meta() {
  OpCase out;
  out.op = "flashmla_sched_meta";
  out.rows = "p";
  out.dims = {{"n", 129}};
  out.scalars = {
      {"block_size_n", 64}, {"fixed_overhead_num_blocks", 5}, {"topk", -1}, {"extra_topk", 0}};
  out.with = {"seqlens_k"};
  for (const char* const arg : {"topk_length", "extra_topk_length", "seqlens_k"}) {
    out.fills[arg] = [](HostTensor& tensor, std::mt19937_64& generator, const HostCall&) {
      fill_integers(tensor, generator,
                    [](std::mt19937_64& random) { return uniform(random, 0, kLongest); });
    };
  }
  for (const std::int64_t requests : {1, 32, 128, 1024, 4096}) {
    out.shapes.push_back({fmt::format("b={} P={} dense", requests, kPartitions),
                          {{"p", kPartitions}, {"n", requests + 1}}});
  }
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const std::int64_t partitions = call.dim("p");
    reference::Schedule schedule = reference::flashmla_sched_meta(
        {call.dim("n") - 1, std::max<std::int64_t>(partitions, 1), scalar(call, "block_size_n"),
         scalar(call, "fixed_overhead_num_blocks"), scalar(call, "topk"),
         scalar(call, "extra_topk"), lengths(call, "seqlens_k"), lengths(call, "topk_length"),
         lengths(call, "extra_topk_length")});
    schedule.meta.resize(static_cast<std::size_t>(partitions) * 8);
    call.store("meta", schedule.meta);
    call.store("num_splits", schedule.num_splits);
  };
  return out;
}

}  // namespace kiln::tools::cases
