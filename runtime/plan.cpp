#include "runtime/plan.hpp"

#include <bit>
#include <utility>

#include <fmt/format.h>

namespace kiln::runtime {
namespace {

bool is_misaligned(const void* workspace) noexcept {
  return std::bit_cast<std::uintptr_t>(workspace) % Plan::kWorkspaceAlignment != 0;
}

// Beside those that a plan has in place.
bool has_attributes(const LaunchOptions& options) noexcept {
  return options.priority.has_value() || options.memory_sync_domain != MemorySyncDomain::kDefault;
}

}  // namespace

Plan::Plan(std::shared_ptr<const Driver> driver, const registry::BoundOp& bound, Context context,
           std::vector<PlanStep> steps, std::size_t workspace_bytes)
    : launch_kernel_(driver->api().cuLaunchKernelEx),
      kernels_(steps.begin(), steps.end()),
      workspace_bytes_(workspace_bytes),
      constants_switch_(bound.constants_switch),
      bound_(bound),
      driver_(std::move(driver)),
      context_(context),
      steps_(std::move(steps)) {}

template <bool kWaits>
[[gnu::always_inline]] inline Status Plan::run(std::span<const Arg> args, CUstream stream,
                                               const LaunchOptions& options) const {
  if (workspace_bytes_ != 0 &&
      (options.workspace == nullptr || options.workspace_bytes < workspace_bytes_ ||
       is_misaligned(options.workspace))) [[unlikely]] {
    return workspace_failure(options);
  }
  // A kernel that cannot be told to read its constants late must not start early.
  const bool pdl = options.pdl && (options.constants_ready || constants_switch_);
  bool starts_early = pdl && !options.serialize;
  for (const KernelLaunch& kernel : kernels_) {
    KernelLaunch::Params params;
    kernel.pack(args, options, params);
    const CUlaunchConfig config = kernel.config(stream, starts_early);
    starts_early = pdl;
    const CUresult result =
        has_attributes(options)
            ? launch_with_attributes(kernel, config, params.pointers.data(), options)
            : launch_kernel_(&config, kernel.function(), params.pointers.data(), nullptr);
    const auto step = static_cast<std::size_t>(&kernel - kernels_.data());
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

[[gnu::hot]] Status Plan::launch(std::span<const Arg> args, CUstream stream,
                                 const LaunchOptions& options) const {
  return run<false>(args, stream, options);
}

Status Plan::launch_and_wait(std::span<const Arg> args, CUstream stream,
                             const LaunchOptions& options) const {
  return run<true>(args, stream, options);
}

CUresult Plan::launch_with_attributes(const KernelLaunch& kernel, CUlaunchConfig config,
                                      void** params, const LaunchOptions& options) const noexcept {
  const KernelLaunch::Attributes attributes(config, options);
  return launch_kernel_(&config, kernel.function(), params, nullptr);
}

Status Plan::wait_for(std::size_t step, CUstream stream) const {
  const CUresult result = driver_->api().cuStreamSynchronize(stream);
  if (result == CUDA_SUCCESS) {
    return {};
  }
  return fail(ErrorCode::kDriverError,
              fmt::format("{}, or what its stream held before it, failed while running: {}",
                          name_of(step), driver_->error_text("cuStreamSynchronize", result)));
}

std::string Plan::name_of(std::size_t step) const {
  return fmt::format("{}, kernel {}", bound_.op.name,
                     bound_.op.kernels[steps_[step].variant.kernel].name);
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

Status Plan::launch_failure(std::size_t step, CUresult result) const {
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
