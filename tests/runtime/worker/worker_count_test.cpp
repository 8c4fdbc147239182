#include "runtime/worker/worker_count.hpp"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::runtime {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
const std::string kGroup = "sys/fs/cgroup/";

/// A made-up /proc and /sys.
class Tree {
 public:
  explicit Tree(std::uint64_t free_bytes, const std::string& cgroup = "0::/\n") {
    put("proc/meminfo", "MemTotal:       999999999 kB\nMemFree:        1 kB\nMemAvailable:   " +
                            std::to_string(free_bytes / 1024) + " kB\n");
    put("proc/self/cgroup", cgroup);
  }
  void put(const std::string& file, const std::string& text) const {
    const auto path = dir_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void put(const std::string& file, std::uint64_t number) const {
    put(file, std::to_string(number) + "\n");
  }
  Machine look(unsigned cores) const { return look_at_machine({dir_.str(), cores}); }
  unsigned workers(unsigned cores) const { return default_worker_count(look(cores)); }

 private:
  test::TempDir dir_;
};

TEST_CASE("Workers are as many as cores where there is memory for all") {
  CHECK(Tree(256 * kGiB).workers(20) == 20);
  CHECK(default_worker_count({8, std::nullopt}) == 8);
}

TEST_CASE("Workers fit into a control group of 16 GiB on 20 cores (field report 112)") {
  const Tree tree(200 * kGiB, "0::/job\n");
  tree.put(kGroup + "job/memory.max", 16 * kGiB);
  tree.put(kGroup + "job/memory.current", 0);
  CHECK(tree.workers(20) == 16);
  tree.put(kGroup + "job/memory.current", 6 * kGiB);
  CHECK(tree.workers(20) == 10);
  // File pages that nobody used lately make room for a worker.
  tree.put(kGroup + "job/memory.stat",
           "anon 1\nfile 9\ninactive_file " + std::to_string(2 * kGiB) + "\n");
  CHECK(tree.workers(20) == 12);
}

TEST_CASE("There is one worker at least, however little memory is left") {
  const Tree tree(200 * kGiB, "0::/job\n");
  tree.put(kGroup + "job/memory.max", kGiB);
  tree.put(kGroup + "job/memory.current", 3 * kGiB);
  CHECK(tree.look(20).available_bytes == 0);
  CHECK(tree.workers(20) == 1);
}

TEST_CASE("The memory of the machine counts where it is less than the group's") {
  const Tree tree(5 * kGiB, "0::/job\n");
  tree.put(kGroup + "job/memory.max", 16 * kGiB);
  CHECK(tree.workers(20) == 5);
}

TEST_CASE("A limit of an ancestor counts, and none of a group without a limit") {
  const Tree tree(200 * kGiB, "0::/a/b/c\n");
  tree.put(kGroup + "a/b/c/memory.max", "max\n");
  tree.put(kGroup + "a/memory.max", 4 * kGiB);
  tree.put(kGroup + "a/b/cpu.max", "250000 100000\n");
  CHECK(tree.look(20).available_bytes == 4 * kGiB);
  CHECK(tree.look(20).cores == 3);
  CHECK(tree.look(2).cores == 2);
}

TEST_CASE("A CPU quota is rounded up, and max is none") {
  const Tree tree(200 * kGiB);
  tree.put(kGroup + "cpu.max", "max 100000\n");
  CHECK(tree.look(20).cores == 20);
  tree.put(kGroup + "cpu.max", "50000 100000\n");
  CHECK(tree.look(20).cores == 1);
  tree.put(kGroup + "cpu.max", "200000 100000\n");
  CHECK(tree.look(20).cores == 2);
}

TEST_CASE("Control groups of version 1 count, also where a container sees only its own") {
  const Tree tree(200 * kGiB, "11:cpu,cpuacct:/docker/abc\n5:memory:/docker/abc\n0::/\n");
  tree.put(kGroup + "memory/memory.limit_in_bytes", 8 * kGiB);
  tree.put(kGroup + "memory/memory.usage_in_bytes", 4 * kGiB);
  tree.put(kGroup + "memory/memory.stat",
           "inactive_file 5\ntotal_inactive_file " + std::to_string(kGiB) + "\n");
  CHECK(tree.look(20).available_bytes == 5 * kGiB);
  tree.put(kGroup + "memory/docker/abc/memory.limit_in_bytes", 3 * kGiB);
  CHECK(tree.look(20).available_bytes == 3 * kGiB);
}

TEST_CASE("What cannot be read or understood is no limit") {
  const test::TempDir empty;
  const Machine nothing = look_at_machine({empty.str(), 7});
  CHECK(nothing.cores == 7);
  CHECK_FALSE(nothing.available_bytes);
  const Tree tree(3 * kGiB, "nonsense\n0::/../../x\n:::\n");
  tree.put(kGroup + "memory.max", "-1\n");
  tree.put(kGroup + "cpu.max", "100000 0\n");
  CHECK(tree.look(7).cores == 7);
  CHECK(tree.look(7).available_bytes == 3 * kGiB);
}

TEST_CASE("This machine has a core and, where /proc is mounted, some memory") {
  const Machine machine = look_at_machine({});
  CHECK(machine.cores >= 1);
  CHECK(default_worker_count(machine) >= 1);
  if (std::filesystem::exists("/proc/meminfo")) {
    CHECK(machine.available_bytes.value_or(0) > 0);
  }
}

}  // namespace
}  // namespace kiln::runtime
