#pragma once

/// \file
/// Which compilation targets exist, which NVRTC makes them, and which of them a device can run.

#include <span>
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

/// Every target Kiln knows, in ascending order.
std::span<const KnownTarget> known_targets() noexcept;

/// Parses "sm_90a". kUnsupportedTarget for text that is no target, and for a target that is not in
/// known_targets(); the message says what would be accepted.
Result<Target> parse(std::string_view text);

/// Whether NVRTC `major`.`minor` compiles for `target`, by the table.
bool nvrtc_knows(const Target& target, int major, int minor) noexcept;

/// Every known target NVRTC `major`.`minor` compiles for, as "sm_80, sm_90, sm_90a": for messages.
std::string targets_of_nvrtc(int major, int minor);

/// The targets whose cubins a device runs, best first: sm_XYa, sm_XYf, sm_XY, then f of lower minors
/// of its family, then plain lower minors of its major. Only known targets; a device newer than the
/// table still gets those of its family and major that the table has.
std::vector<Target> targets_for_device(ComputeCapability device);

}  // namespace kiln::registry
