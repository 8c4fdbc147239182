#pragma once

/// \file
/// What Kiln shows to a tool that records a process, such as Nsight Systems.

#include <string_view>

namespace kiln::runtime {

/// A range of the calling thread in the NVTX domain "kiln", from construction to destruction. Tools
/// inject themselves into the process; where none did, and in a build without NVTX's headers, a
/// range does nothing and allocates nothing. It needs no driver. Not to be moved to another thread.
class ToolRange {
 public:
  /// Its message is the category as a verb, then the name, cut at 255 bytes: "load rmsnorm
  /// PDL=true sm_90a".
  ToolRange(std::string_view category, std::string_view name) noexcept;
  ToolRange(const ToolRange&) = delete;
  ToolRange& operator=(const ToolRange&) = delete;
  ~ToolRange();

  /// Whether a tool listens. The first call of a process reads NVTX's environment variable.
  static bool tool_listens() noexcept;
};

}  // namespace kiln::runtime
