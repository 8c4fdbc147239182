#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace kiln::stress {

/// What one worker process did. Crosses a pipe as it lies.
struct Report {
  std::uint64_t compiles = 0;
  std::uint64_t failures = 0;  ///< Kernels that did not work, or whose log said something.
};

/// Whether workers share their kernel's view of pids and mounts, or each has its own, as in a
/// container: there every worker has pid 1.
enum class Isolation { kNone, kNamespaces };

/// Runs `work` with each number below `count` in a process of its own, all let go at once. A worker
/// that dies or says nothing is a failure. Nothing where the isolation is not permitted.
std::optional<std::vector<Report>> run_workers(int count, Isolation isolation,
                                               const std::function<Report(int)>& work);

}  // namespace kiln::stress
