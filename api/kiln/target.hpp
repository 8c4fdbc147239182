#pragma once

/// \file
/// A compilation target: what NVRTC's -arch takes, such as sm_90a.

#include <compare>
#include <string>

namespace kiln {

/// How far a cubin travels. Base: every device of the same major and at least this minor.
/// Arch-specific ("a"): exactly this device. Family ("f"): this family's devices of at least this
/// minor.
enum class TargetSuffix : char { kBase = 0, kArch = 'a', kFamily = 'f' };

/// `sm_<major><minor><suffix>`: major 9, minor 0, suffix kArch is sm_90a.
struct Target {
  int major = 0;
  int minor = 0;
  TargetSuffix suffix = TargetSuffix::kBase;

  /// The compute capability as one number: 90, 103, 120.
  int compute_capability() const noexcept { return major * 10 + minor; }
  auto operator<=>(const Target&) const = default;
};

/// A device's compute capability.
struct ComputeCapability {
  int major = 0;
  int minor = 0;
  auto operator<=>(const ComputeCapability&) const = default;
};

/// "sm_90a".
std::string to_string(const Target& target);

/// Parses "sm_90a". Throws Error(kUnsupportedTarget) that says what a target looks like.
Target parse_target(const std::string& text);

}  // namespace kiln
