#include "runtime/plan.hpp"

#include <bit>
#include <utility>

#include <fmt/format.h>

namespace kiln::runtime {
namespace {

// A parameter's value in the low bytes of its slot. The driver copies as many bytes as the kernel's
// signature says, so on a little-endian host one slot size serves every type.
static_assert(std::endian::native == std::endian::little);

std::int64_t stride_of(const DLTensor& tensor, int axis) noexcept {
  if (tensor.strides != nullptr) {
    return tensor.strides[axis];
  }
  std::int64_t stride = 1;
  for (int i = axis + 1; i < tensor.ndim; ++i) {
    stride *= tensor.shape[i];
  }
  return stride;
}

std::uint64_t data_of(const Arg& arg) noexcept {
  if (arg.kind() != Arg::Kind::kTensor) {
    return 0;
  }
  const DLTensor& tensor = arg.tensor();
  return std::bit_cast<std::uint64_t>(tensor.data) + tensor.byte_offset;
}

std::uint64_t scalar_of(const Arg& arg, ScalarType type) noexcept {
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

std::uint64_t value_of(const PlanStep::Slot& slot, std::span<const Arg> args,
                       const LaunchOptions& options) noexcept {
  const registry::BoundParam& param = slot.param;
  const auto arg = [&]() -> const Arg& { return args[static_cast<std::size_t>(param.index)]; };
  switch (param.source) {
    case Param::Source::kData:
      return data_of(arg());
    case Param::Source::kStride:
      return arg().kind() == Arg::Kind::kTensor
                 ? static_cast<std::uint64_t>(stride_of(arg().tensor(), param.axis))
                 : 0;
    case Param::Source::kDim:
    case Param::Source::kComputed:
      return slot.constant;
    case Param::Source::kScalar:
      return scalar_of(arg(), param.type);
    case Param::Source::kWorkspace:
      return std::bit_cast<std::uint64_t>(options.workspace);
    case Param::Source::kConstantsReady:
      return options.constants_ready ? 1 : 0;
  }
  return 0;
}

// A launch's attributes, on its caller's stack.
class Attributes {
 public:
  void add_pdl() noexcept {
    CUlaunchAttribute& attribute = next(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  void add_cooperative() noexcept { next(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).value.cooperative = 1; }
  void add_cluster(const Dim3& cluster) noexcept {
    CUlaunchAttribute& attribute = next(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    attribute.value.clusterDim.x = cluster.x;
    attribute.value.clusterDim.y = cluster.y;
    attribute.value.clusterDim.z = cluster.z;
  }
  void add_priority(int priority) noexcept {
    next(CU_LAUNCH_ATTRIBUTE_PRIORITY).value.priority = priority;
  }
  void add_remote_domain() noexcept {
    next(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN).value.memSyncDomain =
        CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  }
  CUlaunchAttribute* data() noexcept { return attributes_.data(); }
  unsigned size() const noexcept { return size_; }

 private:
  CUlaunchAttribute& next(CUlaunchAttributeID id) noexcept {
    CUlaunchAttribute& attribute = attributes_[size_++];
    attribute.id = id;
    return attribute;
  }
  std::array<CUlaunchAttribute, 5> attributes_;  // Only the first size_ are set.
  unsigned size_ = 0;
};

bool is_misaligned(const void* workspace) noexcept {
  return std::bit_cast<std::uintptr_t>(workspace) % Plan::kWorkspaceAlignment != 0;
}

}  // namespace

Plan::Plan(std::shared_ptr<const Driver> driver, const registry::BoundOp& bound, Context context,
           std::vector<PlanStep> steps, std::size_t workspace_bytes)
    : driver_(std::move(driver)),
      launch_kernel_(driver_->api().cuLaunchKernelEx),
      bound_(bound),
      context_(context),
      steps_(std::move(steps)),
      workspace_bytes_(workspace_bytes) {}

Status Plan::launch(std::span<const Arg> args, CUstream stream,
                    const LaunchOptions& options) const {
  return run<false>(args, stream, options);
}

Status Plan::launch_and_wait(std::span<const Arg> args, CUstream stream,
                             const LaunchOptions& options) const {
  return run<true>(args, stream, options);
}

template <bool kWaits>
Status Plan::run(std::span<const Arg> args, CUstream stream, const LaunchOptions& options) const {
  if (workspace_bytes_ != 0 &&
      (options.workspace == nullptr || options.workspace_bytes < workspace_bytes_ ||
       is_misaligned(options.workspace))) {
    return workspace_failure(options);
  }
  // A kernel that cannot be told to read its constants late must not start early.
  const bool pdl = options.pdl && (options.constants_ready || bound_.constants_switch);
  bool starts_early = pdl && !options.serialize;
  for (const PlanStep& step : steps_) {
    std::array<std::uint64_t, kMaxParams> values;  // Only the first slots.size() are set.
    std::array<void*, kMaxParams> pointers;
    for (std::size_t i = 0; i < step.slots.size(); ++i) {
      values[i] = value_of(step.slots[i], args, options);
      pointers[i] = &values[i];
    }
    Attributes attributes;
    const Geometry& geometry = step.geometry;
    if (starts_early && step.pdl) {
      attributes.add_pdl();
    }
    starts_early = pdl;
    if (geometry.cooperative) {
      attributes.add_cooperative();
    }
    if (geometry.cluster != Dim3{}) {
      attributes.add_cluster(geometry.cluster);
    }
    if (options.priority) {
      attributes.add_priority(*options.priority);
    }
    if (options.memory_sync_domain == MemorySyncDomain::kRemote) {
      attributes.add_remote_domain();
    }
    CUlaunchConfig config;
    config.gridDimX = geometry.grid.x;
    config.gridDimY = geometry.grid.y;
    config.gridDimZ = geometry.grid.z;
    config.blockDimX = geometry.block.x;
    config.blockDimY = geometry.block.y;
    config.blockDimZ = geometry.block.z;
    config.sharedMemBytes = geometry.dynamic_shared_bytes;
    config.hStream = stream;
    config.attrs = attributes.data();
    config.numAttrs = attributes.size();
    const CUresult result = launch_kernel_(&config, step.function, pointers.data(), nullptr);
    if (result != CUDA_SUCCESS) [[unlikely]] {
      return launch_failure(step, result);
    }
    if constexpr (kWaits) {
      if (Status status = wait_for(step, stream); !status) {
        return status;
      }
    }
  }
  return {};
}

Status Plan::wait_for(const PlanStep& step, CUstream stream) const {
  const CUresult result = driver_->api().cuStreamSynchronize(stream);
  if (result == CUDA_SUCCESS) {
    return {};
  }
  return fail(ErrorCode::kDriverError,
              fmt::format("{}, or what its stream held before it, failed while running: {}",
                          name_of(step), driver_->error_text("cuStreamSynchronize", result)));
}

std::string Plan::name_of(const PlanStep& step) const {
  return fmt::format("{}, kernel {}", bound_.op.name, bound_.op.kernels[step.variant.kernel].name);
}

Status Plan::workspace_failure(const LaunchOptions& options) const {
  const std::string needs = fmt::format("{} needs {} bytes of workspace aligned to {}",
                                        bound_.op.name, workspace_bytes_, kWorkspaceAlignment);
  if (options.workspace == nullptr) {
    return fail(ErrorCode::kInvalidArgument, needs + ", and LaunchOptions::workspace is null");
  }
  if (options.workspace_bytes < workspace_bytes_) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}, and LaunchOptions::workspace_bytes is {}", needs,
                            options.workspace_bytes));
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}, and LaunchOptions::workspace is {}", needs, options.workspace));
}

Status Plan::launch_failure(const PlanStep& step, CUresult result) const {
  if (Status process = driver_->check_process(); !process) {
    return fail(process.error().code, name_of(step) + ": " + process.error().message);
  }
  std::string message = name_of(step) + ": " + driver_->error_text("cuLaunchKernelEx", result);
  if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_CONTEXT ||
      result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
    CUcontext current = nullptr;
    driver_->api().cuCtxGetCurrent(&current);
    message += fmt::format(
        "; the kernel was loaded for context {}, the current one is {}: the stream and the current "
        "context must be of the former",
        static_cast<const void*>(context_.handle), static_cast<const void*>(current));
  }
  return fail(ErrorCode::kDriverError, std::move(message));
}

std::size_t param_bytes(const registry::BoundParam& param) noexcept {
  switch (param.source) {
    case Param::Source::kData:
    case Param::Source::kWorkspace:
      return sizeof(void*);
    case Param::Source::kStride:
    case Param::Source::kDim:
    case Param::Source::kScalar:
    case Param::Source::kComputed:
    case Param::Source::kConstantsReady:
      break;
  }
  switch (param.type) {
    case ScalarType::kI64:
      return 8;
    case ScalarType::kI32:
    case ScalarType::kF32:
      return 4;
    case ScalarType::kBool:
      return 1;
  }
  return 0;
}

}  // namespace kiln::runtime
