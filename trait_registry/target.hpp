#pragma once

/// \file
/// Which compilation targets exist, which NVRTC makes them, and which of them a device can run.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/target.hpp>

#include "base/result.hpp"

namespace kiln::registry {

/// A target and the first NVRTC release that compiles for it.
struct KnownTarget {
  Target target;
  int nvrtc_major = 0;
  int nvrtc_minor = 0;
};

/// Every target Kiln knows, in ascending order. Each stays known to every later NVRTC up to 13.x.
std::span<const KnownTarget> known_targets() noexcept;

/// Parses "sm_90a". kUnsupportedTarget for text that has not this form. A target that no NVRTC
/// knows, such as sm_95, parses: whether it can be compiled is for the NVRTC at hand to say.
Result<Target> parse(std::string_view text);

/// Whether NVRTC `major`.`minor` compiles for `target`, by the table.
bool nvrtc_knows(const Target& target, int major, int minor) noexcept;

/// Every known target NVRTC `major`.`minor` compiles for, as "sm_80, sm_90, sm_90a": for messages.
std::string targets_of_nvrtc(int major, int minor);

/// The targets whose cubins a device runs, best first: sm_XYa, sm_XYf, sm_XY, then f of lower
/// minors of its family, then plain lower minors of its major. Only known targets, so a device
/// newer than the table gets the plain ones of its major.
std::vector<Target> targets_for_device(ComputeCapability device);

}  // namespace kiln::registry
