#pragma once

/// \file
/// What is compared, each in a process of its own, so that the driver, the loader and the heap are
/// as at a start.

#include <cstddef>
#include <string>

#include "bench/serving_start/place.hpp"

namespace kiln::bench {

struct Start {
  double seconds = 0;           ///< Until every kernel is loaded; a context is there before.
  std::size_t resident_kb = 0;  ///< Of the process, then.
  std::size_t libraries = 0;
  std::size_t kernels = 0;
};

/// "bare": the driver calls alone, on images that are in memory. "pack", "directory": an engine
/// that may not compile, from its making until its warm-up returns.
Start start_in_child(const std::string& what, const Place& place);

/// What start_in_child's process runs. The exit code.
int child_main(const std::string& what, const Place& place);

}  // namespace kiln::bench
