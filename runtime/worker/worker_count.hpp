#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kiln::runtime {

/// What compile workers may use of the machine, as far as this process may use it.
struct Machine {
  unsigned cores = 1;  ///< By affinity and by the CPU quota of the control groups, rounded up.
  /// Memory that can be had now: the least that the machine and any of the process's control
  /// groups has left, where file pages that nobody used lately count as free. Nothing: unknown.
  std::optional<std::uint64_t> available_bytes;
};

struct MachineInputs {
  std::string system_root = "/";  ///< The root that /proc and /sys are looked for under.
  unsigned affinity_cores = 0;    ///< 0: as the system says.
};

/// Reads /proc/meminfo and the control groups, version 2 and 1. What cannot be read or understood
/// is no limit.
Machine look_at_machine(const MachineInputs& inputs);

/// What NVRTC takes at most for a kernel of the usual size.
inline constexpr std::uint64_t kWorkerBudgetBytes = std::uint64_t{1} << 30;

/// One worker a core, as far as memory goes; at least one.
unsigned default_worker_count(const Machine& machine,
                              std::uint64_t bytes_per_worker = kWorkerBudgetBytes);

}  // namespace kiln::runtime
