#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "cache/lock_table.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {

using namespace test;

TEST_CASE("A lock excludes the threads of one process") {
  const kiln::test::TempDir dir;
  LogLines log;
  PosixFileSystem disk;
  const std::string root = *disk.canonical(dir.str());
  DirectoryLayer layer(disk, root, TrustRole::kNamedRoot, TrustPolicy::of_process());
  Publisher publisher(disk, layer, RootPlan());
  LockTimes times;
  times.beat_every = std::chrono::milliseconds(1);
  LockTable table(disk, Layout(root), publisher, log.logger(), times, nullptr);
  // Atomic, since ThreadSanitizer does not know flock() for what it is.
  std::atomic<int> inside = 0;
  std::atomic<int> overlaps = 0;
  std::atomic<int> entered = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 5; ++turn) {
        const CompileLock lock = table.acquire({}, {});
        entered += lock.held() ? 1 : 0;
        overlaps += ++inside > 1 ? 1 : 0;
        std::this_thread::yield();
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(entered == 40);
  CHECK(overlaps == 0);
  CHECK(log.text() == "");
}

TEST_CASE("A thousand creations of the same folders, all at once, all succeed (field report 5)") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk;
  const std::string root = *disk.canonical(dir.str()) + "/root";
  DirectoryLayer layer(disk, root, TrustRole::kNamedRoot, TrustPolicy::of_process());
  Publisher publisher(disk, layer, RootPlan());
  constexpr int kThreads = 8;
  constexpr int kFolders = 125;
  std::atomic<int> failures = 0;
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int folder = 0; folder < kFolders; ++folder) {
        start.arrive_and_wait();
        const std::string path = root + "/v1/sm_" + std::to_string(folder) + "/toolchain";
        failures += publisher.make_folder(path) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(failures == 0);
}

}  // namespace kiln::cache
