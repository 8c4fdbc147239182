#include "runtime/worker/worker_count.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <sched.h>

namespace kiln::runtime {
namespace {

namespace fs = std::filesystem;
using Bytes = std::optional<std::uint64_t>;

Bytes parse(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? Bytes(value) : std::nullopt;
}

// The first word of a file; none for "max".
Bytes number_in(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return parse(word);
}

// The number that follows `name` in a file of lines "name number".
Bytes field_of(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string first;
    std::string second;
    if (words >> first >> second && first == name) {
      return parse(second);
    }
  }
  return std::nullopt;
}

void lower(Bytes& least, const Bytes& other) {
  if (other && (!least || *other < *least)) {
    least = other;
  }
}

// One hierarchy of control groups, and what its files are called.
struct Hierarchy {
  fs::path mount;
  std::string group;  // As /proc/self/cgroup names it: "/a/b".
  const char* limit;
  const char* usage;
  const char* reclaimable;  // In memory.stat.
};

Hierarchy version_2(fs::path mount, std::string group) {
  return {std::move(mount), std::move(group), "memory.max", "memory.current", "inactive_file"};
}

Hierarchy version_1(fs::path mount, std::string group) {
  return {std::move(mount), std::move(group), "memory.limit_in_bytes", "memory.usage_in_bytes",
          "total_inactive_file"};
}

// A line is "number:controllers:group"; version 2 has no controllers.
std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    const fs::path mount = root / "sys/fs/cgroup";
    if (controllers.empty()) {
      found.push_back(version_2(mount, group));
      found.push_back(version_2(mount / "unified", group));
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      found.push_back(version_1(mount / "memory", group));
    }
  }
  return found;
}

// The group's folder and those of its ancestors, up to the mount. In a container the name may be
// the host's while the mount shows the container's own group, so folders may be missing; the mount
// itself is then what counts.
std::vector<fs::path> folders_of(const Hierarchy& hierarchy) {
  std::vector<fs::path> folders{hierarchy.mount};
  if (hierarchy.group.find("..") == std::string::npos) {
    fs::path folder = hierarchy.mount;
    for (const fs::path& name : fs::path(hierarchy.group).relative_path()) {
      folder /= name;
      folders.push_back(folder);
    }
  }
  return folders;
}

// limit - (usage - reclaimable), never below 0; nothing where there is no limit.
Bytes memory_left(const Hierarchy& hierarchy, const fs::path& folder) {
  const Bytes limit = number_in(folder / hierarchy.limit);
  if (!limit) {
    return std::nullopt;
  }
  const std::uint64_t usage = number_in(folder / hierarchy.usage).value_or(0);
  const std::uint64_t reclaimable =
      field_of(folder / "memory.stat", hierarchy.reclaimable).value_or(0);
  const std::uint64_t taken = usage - std::min(usage, reclaimable);
  return *limit - std::min(*limit, taken);
}

// cpu.max is "quota period" or "max period".
Bytes quota_cores(const fs::path& folder) {
  std::ifstream file(folder / "cpu.max");
  std::string quota_word;
  std::string period_word;
  file >> quota_word >> period_word;
  const Bytes quota = parse(quota_word);
  const Bytes period = parse(period_word);
  if (!quota || !period || *period == 0) {
    return std::nullopt;
  }
  return *quota / *period + (*quota % *period != 0 ? 1 : 0);
}

unsigned affinity_cores() {
  std::array<cpu_set_t, 16> sets{};  // 16384 of them.
  if (::sched_getaffinity(0, sizeof sets, sets.data()) != 0) {
    return 1;
  }
  return static_cast<unsigned>(CPU_COUNT_S(sizeof sets, sets.data()));
}

Bytes available_memory(const fs::path& root) {
  const Bytes kilobytes = field_of(root / "proc/meminfo", "MemAvailable:");
  return kilobytes ? Bytes(*kilobytes * 1024) : std::nullopt;
}

}  // namespace

Machine look_at_machine(const MachineInputs& inputs) {
  const fs::path root = inputs.system_root;
  Bytes cores = inputs.affinity_cores != 0 ? inputs.affinity_cores : affinity_cores();
  Machine machine;
  machine.available_bytes = available_memory(root);
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    for (const fs::path& folder : folders_of(hierarchy)) {
      lower(machine.available_bytes, memory_left(hierarchy, folder));
      lower(cores, quota_cores(folder));
    }
  }
  machine.cores = static_cast<unsigned>(std::max<std::uint64_t>(*cores, 1));
  return machine;
}

unsigned default_worker_count(const Machine& machine, std::uint64_t bytes_per_worker) {
  std::uint64_t workers = machine.cores;
  if (machine.available_bytes && bytes_per_worker != 0) {
    workers = std::min(workers, *machine.available_bytes / bytes_per_worker);
  }
  return static_cast<unsigned>(std::max<std::uint64_t>(workers, 1));
}

}  // namespace kiln::runtime
