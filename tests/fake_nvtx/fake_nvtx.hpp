#pragma once

/// \file
/// A tool that listens to NVTX, as Nsight Systems does: a library that NVTX loads where
/// NVTX_INJECTION64_PATH names it. It notes what it is told.

#include <string>
#include <vector>

namespace kiln::fake {

/// What the tool was told until now: "domain NAME", "THREAD push NAME: MESSAGE" and "THREAD pop
/// NAME", with the thread's id.
using NvtxEventsFunction = void (*)(std::vector<std::string>& into);
inline constexpr const char* kNvtxEventsSymbol = "kiln_fake_nvtx_events";

}  // namespace kiln::fake
