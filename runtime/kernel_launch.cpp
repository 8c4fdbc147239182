#include "runtime/kernel_launch.hpp"

#include <algorithm>

namespace kiln::runtime {

static_assert(std::endian::native == std::endian::little);

KernelLaunch::KernelLaunch(const PlanStep& step) : function_(step.function) {
  const Geometry& geometry = step.geometry;
  config_.gridDimX = geometry.grid.x;
  config_.gridDimY = geometry.grid.y;
  config_.gridDimZ = geometry.grid.z;
  config_.blockDimX = geometry.block.x;
  config_.blockDimY = geometry.block.y;
  config_.blockDimZ = geometry.block.z;
  config_.sharedMemBytes = geometry.dynamic_shared_bytes;
  add_attributes(step);
  constants_.resize((std::max<std::size_t>(step.slots.size(), 1) + kChunk - 1) / kChunk * kChunk);
  for (std::size_t i = 0; i < step.slots.size(); ++i) {
    const bool is_switch = step.slots[i].param.source == Param::Source::kConstantsReady;
    constants_[i] = is_switch ? 1 : step.slots[i].constant;
  }
  add_fills(step, Param::Source::kData, data_);
  add_fills(step, Param::Source::kStride, strides_);
  add_fills(step, Param::Source::kScalar, scalars_);
  add_fills(step, Param::Source::kWorkspace, workspaces_);
  add_fills(step, Param::Source::kConstantsReady, switches_);
}

void KernelLaunch::add_fills(const PlanStep& step, Param::Source source, std::uint8_t& count) {
  for (std::size_t i = 0; i < step.slots.size(); ++i) {
    const registry::BoundParam& param = step.slots[i].param;
    if (param.source == source) {
      fills_.push_back({static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(param.index),
                        static_cast<std::uint8_t>(param.axis), param.type});
      ++count;
    }
  }
}

void KernelLaunch::add_attributes(const PlanStep& step) noexcept {
  const auto next = [this](CUlaunchAttributeID id) -> CUlaunchAttributeValue& {
    CUlaunchAttribute& attribute = attributes_[config_.numAttrs++];
    attribute.id = id;
    return attribute.value;
  };
  if (step.pdl) {
    pdl_ = 1;
    next(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        .programmaticStreamSerializationAllowed = 1;
  }
  if (step.geometry.cooperative) {
    next(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1;
  }
  if (const Dim3& cluster = step.geometry.cluster; cluster != Dim3{}) {
    auto& value = next(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim;
    value.x = cluster.x;
    value.y = cluster.y;
    value.z = cluster.z;
  }
}

std::uint64_t KernelLaunch::scalar_of(const Arg& arg, ScalarType type) noexcept {
  const bool real = arg.kind() == Arg::Kind::kReal;
  if (type == ScalarType::kF32) {
    const float value = real ? static_cast<float>(arg.real()) : static_cast<float>(arg.integer());
    return std::bit_cast<std::uint32_t>(value);
  }
  if (arg.kind() == Arg::Kind::kAbsent) {
    return 0;
  }
  return static_cast<std::uint64_t>(real ? static_cast<std::int64_t>(arg.real()) : arg.integer());
}

void KernelLaunch::pack_options(const LaunchOptions& options, Params& params) const noexcept {
  const Fill* const workspaces = fills_.data() + data_ + strides_ + scalars_;
  const Fill* const switches = workspaces + workspaces_;
  for (const Fill* fill = workspaces; fill != switches; ++fill) {
    params.values[fill->slot] = std::bit_cast<std::uint64_t>(options.workspace);
  }
  for (const Fill* fill = switches; fill != switches + switches_; ++fill) {
    params.values[fill->slot] = options.constants_ready ? 1 : 0;
  }
}

KernelLaunch::Attributes::Attributes(CUlaunchConfig& config,
                                     const LaunchOptions& options) noexcept {
  std::copy_n(config.attrs, config.numAttrs, all_.data());
  config.attrs = all_.data();
  if (options.priority) {
    CUlaunchAttribute& attribute = all_[config.numAttrs++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    attribute.value.priority = *options.priority;
  }
  if (options.memory_sync_domain == MemorySyncDomain::kRemote) {
    CUlaunchAttribute& attribute = all_[config.numAttrs++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
    attribute.value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  }
}

}  // namespace kiln::runtime
