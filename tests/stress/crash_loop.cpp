// Writers of one cache are killed at random points, one after another. What they leave must be
// whole entries, temporary files that are collected, and lock files; and none of it may grow.
// Prints the figures; the exit code is 0 when they are right (field report 15).

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <new>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/store.hpp"
#include "cache/writer.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::stress {
namespace {

namespace fs = std::filesystem;
using cache::test::files_below;

constexpr std::size_t kKernels = 16;
constexpr std::size_t kPieceBytes = 32;  // Of a write, so that kills fall between writes.
constexpr int kLongestLife = 8000;       // Microseconds, from a writer's first publish.

struct Settings {
  int kills = 500;
  unsigned seed = 1;
};

// Seen by the writers and the parent.
struct Shared {
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> published{0};
};

struct Figures {
  std::uint64_t in_a_write = 0;  // Kills that left a temporary file.
  std::uint64_t bad_reads = 0;   // Readers that saw anything but a whole entry or none.
  std::uint64_t bad_files = 0;   // Files at the end that no one should have left.
  std::uint64_t left = 0;        // Temporary files before the collection.
  std::uint64_t uncollected = 0;
  std::uint64_t files = 0;  // In the end.
};

cache::Entry kernel(std::size_t index) {
  return cache::test::sample_entry(cache::test::sample_source("sm_90a", std::to_string(index)),
                                   cache::test::sample_toolchain(), 4000 + 3000 * index);
}

[[noreturn]] void write_for_ever(const std::string& root, std::size_t first, Shared& shared) {
  auto disk = std::make_shared<cache::test::FaultyFileSystem>();
  disk->skip_sync();
  disk->write_at_most(kPieceBytes);
  cache::test::LogLines log;
  cache::Store store(cache::test::options_at(root, log, disk));
  for (std::size_t i = first;; ++i) {
    const cache::Entry entry = kernel(i % kKernels);
    const cache::CompileLock lock = store.lock(entry.source, entry.toolchain);
    ++shared.begun;
    shared.published += store.publish(entry) ? 1U : 0U;
  }
}

// A reader between two kills: each kernel is there whole, or not at all.
std::uint64_t bad_reads(const std::string& root) {
  cache::test::LogLines log;
  cache::Store reader(cache::test::options_at(root, log));
  std::uint64_t bad = 0;
  for (std::size_t i = 0; i < kKernels; ++i) {
    const cache::Entry entry = kernel(i);
    const auto hit = cache::test::find(reader, entry.source, &entry.toolchain);
    bad += hit && !cache::test::same(hit->entry, entry) ? 1U : 0U;
  }
  return bad + reader.counters().rejected + log.lines().size();
}

void kill_one(const std::string& root, std::size_t number, int life, Shared& shared) {
  const std::uint64_t before = shared.begun;
  const pid_t writer = fork();
  if (writer == 0) {
    write_for_ever(root, number, shared);
  }
  while (shared.begun == before) {
    usleep(50);
  }
  usleep(static_cast<useconds_t>(life));
  kill(writer, SIGKILL);
  int status = 0;
  waitpid(writer, &status, 0);
}

bool is_expected(const std::string& root, const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (path.starts_with(root + "/v1/locks/")) {
    return name.size() == 2;
  }
  if (path.starts_with(root + "/v1/tmp/")) {
    return cache::is_temporary_name(name);
  }
  return path.ends_with(".cubin") && cache::decode_entry(cache::test::read_bytes(path)).has_value();
}

// Lets an hour go by for the temporary files, and publishes once.
void collect(const std::string& root, Figures& figures) {
  for (const std::string& path : files_below(root + "/v1/tmp")) {
    ++figures.left;
    fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(2));
  }
  cache::test::LogLines log;
  cache::Store store(cache::test::options_at(root, log));
  figures.bad_files += store.publish(kernel(0)) ? 0U : 1U;
  figures.uncollected = files_below(root + "/v1/tmp").size();
}

int run(const Settings& settings) {
  const test::TempDir dir;
  const std::string root = dir.str("root");
  void* page =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return 1;
  }
  Shared& shared = *new (page) Shared;
  std::mt19937 random(settings.seed);
  std::uniform_int_distribution<int> life(0, kLongestLife);
  Figures figures;
  std::size_t temporaries = 0;
  for (int i = 0; i < settings.kills; ++i) {
    kill_one(root, static_cast<std::size_t>(i), life(random), shared);
    const std::size_t now = files_below(root + "/v1/tmp").size();
    figures.in_a_write += now > temporaries ? 1U : 0U;
    temporaries = now;
    figures.bad_reads += bad_reads(root);
  }
  for (const std::string& path : files_below(root)) {
    figures.bad_files += is_expected(root, path) ? 0U : 1U;
  }
  collect(root, figures);
  figures.files = files_below(root).size();
  // Nothing but the kernels and their locks, however many writers died.
  const bool bounded = figures.files <= 2 * kKernels;
  fmt::print("crash loop: {} writers killed, seed {}; {} publishes begun, {} done\n",
             settings.kills, settings.seed, shared.begun.load(), shared.published.load());
  fmt::print("killed within a write: {}\nbad reads between kills: {}\nbad files: {}\n",
             figures.in_a_write, figures.bad_reads, figures.bad_files);
  fmt::print(
      "temporary files left: {}, after a collection: {}\nfiles in the end: {} ({} kernels)\n",
      figures.left, figures.uncollected, figures.files, kKernels);
  munmap(page, sizeof(Shared));
  return figures.bad_reads + figures.bad_files + figures.uncollected == 0 && bounded &&
                 figures.in_a_write > 0
             ? 0
             : 1;
}

}  // namespace
}  // namespace kiln::stress

int main(int argc, char** argv) {
  kiln::stress::Settings settings;
  CLI::App app{"Writers that are killed"};
  app.add_option("--kills", settings.kills)->check(CLI::Range(1, 1000000));
  app.add_option("--seed", settings.seed, "of the moments of the kills");
  CLI11_PARSE(app, argc, argv);
  return kiln::stress::run(settings);
}
