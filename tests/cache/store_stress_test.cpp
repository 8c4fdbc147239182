#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "cache/quarantine.hpp"
#include "cache/store.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {
namespace {

using namespace test;

constexpr int kWorkers = 8;
constexpr int kKernels = 50;
constexpr int kRounds = 5;

Entry kernel(int index) {
  return sample_entry(sample_source(index % 2 == 0 ? "sm_90a" : "sm_100a", std::to_string(index)),
                      sample_toolchain(), 2000 + static_cast<std::size_t>(index));
}

// As fast as can be: what is tested is the order of calls, not the disk's patience.
std::shared_ptr<FaultyFileSystem> quick_disk() {
  auto disk = std::make_shared<FaultyFileSystem>();
  disk->skip_sync();
  return disk;
}

// One worker's life: every kernel is looked up, published when missing, and then found.
std::string work(Store& store, int offset) {
  const ToolchainKey toolchain = sample_toolchain();
  for (int i = 0; i < kKernels; ++i) {
    const Entry entry = kernel((i + offset) % kKernels);
    auto hit = find(store, entry.source, &toolchain);
    if (!hit) {
      if (!store.publish(entry)) {
        return "a publish failed";
      }
      hit = find(store, entry.source, &toolchain);
    }
    if (!hit || !same(hit->entry, entry)) {
      return "kernel " + entry.source.target + " is missing or wrong after its publish";
    }
  }
  return "";
}

void check_complete(const std::string& root) {
  LogLines log;
  Store store(options_at(root, log));
  CHECK(store.list().size() == kKernels);
  CHECK(store.verify().empty());
  CHECK(files_below(root).size() == kKernels);  // Nothing temporary, nothing quarantined.
  for (int i = 0; i < kKernels; ++i) {
    CHECK(read_bytes(entry_path(root, kernel(i))) == encode_entry(kernel(i)));
  }
}

}  // namespace

TEST_CASE("Eight processes on one empty root all find every kernel") {
  for (int round = 0; round < kRounds; ++round) {
    const kiln::test::TempDir dir;
    const std::string root = dir.str("root");
    std::vector<pid_t> workers;
    int gate[2];
    REQUIRE(pipe(gate) == 0);
    for (int worker = 0; worker < kWorkers; ++worker) {
      const pid_t child = fork();
      if (child == 0) {
        close(gate[1]);
        char byte = 0;
        const bool opened =
            read(gate[0], &byte, 1) == 0;  // The end of the pipe: all start at once.
        LogLines log;
        Store store(options_at(root, log, quick_disk()));
        const std::string problem = work(store, worker * 3) + log.text();
        _exit(opened && problem.empty() ? 0 : 1);
      }
      workers.push_back(child);
    }
    close(gate[0]);
    close(gate[1]);
    int failures = 0;
    for (const pid_t worker : workers) {
      int status = 0;
      waitpid(worker, &status, 0);
      failures += status != 0 ? 1 : 0;
    }
    CHECK(failures == 0);
    check_complete(root);
  }
}

TEST_CASE("Eight threads of one store all find every kernel") {
  for (int round = 0; round < kRounds; ++round) {
    const kiln::test::TempDir dir;
    LogLines log;
    Store store(options_at(dir.str("root"), log, quick_disk()));
    std::atomic<int> failures = 0;
    std::vector<std::thread> threads;
    for (int worker = 0; worker < kWorkers; ++worker) {
      threads.emplace_back([&, worker] { failures += work(store, worker * 3).empty() ? 0 : 1; });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    CHECK(failures == 0);
    CHECK(log.text() == "");
    check_complete(dir.str("root"));
  }
}

TEST_CASE("Lookups, rejections, damage and listings at once never give a wrong kernel") {
  const kiln::test::TempDir dir;
  const std::string root = dir.str("root");
  LogLines log;
  Store store(options_at(root, log, quick_disk()));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&, worker] {
      for (int i = 0; i < 200; ++i) {
        const Entry entry = kernel(i % 5);
        const ToolchainKey* toolchain = i % 2 == 0 ? &entry.toolchain : nullptr;
        const auto hit = find(store, entry.source, toolchain);
        wrong += hit && !same(hit->entry, entry) ? 1 : 0;
        if (!hit) {
          wrong += store.publish(entry) ? 0 : 1;
        } else if (worker == 0) {
          store.reject(*hit, "refused");
        } else if (worker == 1 && i % 7 == 0) {
          std::error_code ignored;
          std::filesystem::resize_file(hit->path, 10, ignored);
        } else if (worker == 2 && i % 20 == 0) {
          store.list();
          store.stat();
          static_cast<void>(store.root_description());
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
  CHECK(files_below(root + "/v1/tmp").empty());
  CHECK(files_below(root + "/v1/quarantine").size() <= kMaxQuarantined);
}

TEST_CASE(
    "A writer killed at any moment leaves nothing that a reader accepts as wrong (field reports 15 "
    "and 67)") {
  const kiln::test::TempDir dir;
  const std::string root = dir.str("root");
  const Entry entry = kernel(0);
  for (int round = 0; round < 60; ++round) {
    const pid_t writer = fork();
    if (writer == 0) {
      auto disk = quick_disk();
      disk->write_at_most(64);  // Many small writes, so that the kill falls between them.
      LogLines log;
      Store store(options_at(root, log, disk));
      for (;;) {
        static_cast<void>(store.publish(entry));
      }
    }
    usleep(static_cast<useconds_t>(200 + round * 70));
    kill(writer, SIGKILL);
    int status = 0;
    waitpid(writer, &status, 0);
    LogLines log;
    Store reader(options_at(root, log));
    const auto hit = find(reader, entry.source, &entry.toolchain);
    CHECK((!hit || same(hit->entry, entry)));
    CHECK(reader.verify().empty());
    CHECK(reader.counters().rejected == 0);
  }
}

}  // namespace kiln::cache
