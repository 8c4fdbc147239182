#include "runtime/recorder.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cache/child.hpp"
#include "tests/runtime/engine/machine.hpp"
#include "tests/support/tiny_op.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::test {
namespace {

using runtime::Manifest;
using runtime::Recorder;

/// As many variants as are asked for, of one op.
class Variants {
 public:
  explicit Variants(int count) {
    REQUIRE(registry_.add(tiny_op(count)));
    all_ = registry::enumerate(**registry_.find("tiny"), parse_target("sm_90a"));
  }
  const Variant& operator[](std::size_t i) const { return all_[i]; }
  std::span<const Variant> all() const { return all_; }
  std::span<const Variant> one(std::size_t i) const { return all().subspan(i, 1); }

 private:
  registry::Registry registry_;
  std::vector<Variant> all_;
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Manifest manifest(const std::string& path) {
  const Result<Manifest> parsed = Manifest::parse(content(path), path);
  INFO((parsed ? "" : parsed.error().message));
  REQUIRE(parsed);
  return *parsed;
}

std::size_t files_in(const TempDir& dir) {
  const std::filesystem::directory_iterator files(dir.path());
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

TEST_CASE("What is used is in the file when the call returns, once") {
  const TempDir dir;
  const Variants variants(3);
  LogLines log;
  Recorder recorder(dir.str("m.json"), Logger(log.sink()));
  CHECK(recorder.on());
  CHECK(files_in(dir) == 0);
  recorder.used(variants.one(1));
  CHECK(manifest(dir.str("m.json")).variants.size() == 1);
  recorder.used(variants.all());
  recorder.used(variants.all());
  CHECK(manifest(dir.str("m.json")).variants.size() == 3);
  CHECK(files_in(dir) == 2);  // The manifest and its lock.
  CHECK(log.lines().empty());
}

TEST_CASE("An empty path records nothing") {
  const Variants variants(1);
  LogLines log;
  Recorder recorder("", Logger(log.sink()));
  recorder.used(variants.all());
  CHECK_FALSE(recorder.on());
  CHECK(log.lines().empty());
}

TEST_CASE("What is known already is not written again") {
  const TempDir dir;
  const Variants variants(2);
  LogLines log;
  Recorder(dir.str("m.json"), Logger(log.sink())).used(variants.all());
  // A rewrite would replace the file, and leave this second name with the old one.
  std::filesystem::create_hard_link(dir.str("m.json"), dir.str("old"));
  Recorder(dir.str("m.json"), Logger(log.sink())).used(variants.one(0));
  CHECK(std::filesystem::equivalent(dir.str("m.json"), dir.str("old")));
}

TEST_CASE("The process id may be a part of the name") {
  const TempDir dir;
  const Variants variants(1);
  LogLines log;
  Recorder(dir.str("m-%p.%p"), Logger(log.sink())).used(variants.all());
  const std::string id = std::to_string(getpid());
  CHECK(manifest(dir.str("m-" + id + "." + id)).variants.size() == 1);
}

TEST_CASE("An empty file counts as none, and a link is followed") {
  const TempDir dir;
  const Variants variants(1);
  LogLines log;
  std::ofstream(dir.str("m.json"));
  std::filesystem::create_symlink("m.json", dir.str("link"));
  Recorder(dir.str("link"), Logger(log.sink())).used(variants.all());
  CHECK(manifest(dir.str("m.json")).variants.size() == 1);
  CHECK(std::filesystem::is_symlink(dir.str("link")));
}

TEST_CASE("Processes that record into one file at once lose nothing") {
  const TempDir dir;
  constexpr int kProcesses = 4;
  constexpr int kEach = 20;
  const Variants variants(kProcesses * kEach);
  const int failures =
      cache::test::failures_of_children(kProcesses, [&](int number) -> std::string {
        LogLines log;
        Recorder recorder(dir.str("m.json"), Logger(log.sink()));
        for (int i = 0; i < kEach; ++i) {
          recorder.used(variants.one(static_cast<std::size_t>(i * kProcesses + number)));
        }
        return recorder.on() && log.lines().empty() ? "" : "recording stopped";
      });
  CHECK(failures == 0);
  CHECK(manifest(dir.str("m.json")).variants.size() == kProcesses * kEach);
  CHECK(files_in(dir) == 2);
}

TEST_CASE("Threads that record into one file at once lose nothing") {
  const TempDir dir;
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 10;
  const Variants variants(kThreads * kEach);
  LogLines log;
  Recorder recorder(dir.str("m.json"), Logger(log.sink()));
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t i = 0; i < kEach; ++i) {
          recorder.used(variants.one(thread * kEach + i));
        }
      });
    }
  }
  CHECK(manifest(dir.str("m.json")).variants.size() == kThreads * kEach);
}

TEST_CASE("A process killed while it records leaves a whole file with what it had said was there") {
  const TempDir dir;
  const Variants variants(2000);
  constexpr int kKills = 5;
  std::size_t at_least = 0;
  for (int round = 0; round < kKills; ++round) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
      LogLines log;
      Recorder recorder(dir.str("m.json"), Logger(log.sink()));
      for (std::size_t i = at_least; i < variants.all().size(); ++i) {
        recorder.used(variants.one(i));
        if (write(ends[1], "x", 1) != 1) {
          break;
        }
      }
      _exit(1);
    }
    close(ends[1]);
    // As soon as some are there, so that the kill meets a writer at work.
    for (int i = 0; i < 5 + round; ++i) {
      char byte = 0;
      REQUIRE(read(ends[0], &byte, 1) == 1);
      ++at_least;
    }
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    close(ends[0]);
    CHECK(manifest(dir.str("m.json")).variants.size() >= at_least);
    at_least = manifest(dir.str("m.json")).variants.size();
  }
  LogLines log;
  Recorder(dir.str("m.json"), Logger(log.sink())).used(variants.one(1999));
  CHECK(log.lines().empty());
  CHECK(manifest(dir.str("m.json")).variants.size() == at_least + 1);
  CHECK(files_in(dir) == 2);  // Also nothing that the dead had begun.
}

TEST_CASE("A file that is no manifest is left alone, with one warning") {
  const TempDir dir;
  const Variants variants(2);
  const std::string foreign =
      GENERATE("my thesis\n", "{\"kiln_manifest\": 2, \"variants\": []}\n", "{}");
  std::ofstream(dir.str("m.json")) << foreign;
  LogLines log;
  Recorder recorder(dir.str("m.json"), Logger(log.sink()));
  recorder.used(variants.one(0));
  recorder.used(variants.one(1));
  CHECK_FALSE(recorder.on());
  CHECK(content(dir.str("m.json")) == foreign);
  REQUIRE(log.lines().size() == 1);
  CHECK(log.lines()[0].find("record: the variants in use are not recorded in " +
                            dir.str("m.json")) == 0);
}

TEST_CASE("A place that cannot be written is one warning") {
  const TempDir dir;
  const Variants variants(2);
  std::ofstream(dir.str("file"));
  std::filesystem::create_directory(dir.str("folder"));
  const std::string name = GENERATE("absent/m.json", "file/m.json", "folder");
  LogLines log;
  Recorder recorder(dir.str(name), Logger(log.sink()));
  recorder.used(variants.one(0));
  recorder.used(variants.one(1));
  CHECK_FALSE(recorder.on());
  CHECK(log.lines().size() == 1);
}

TEST_CASE("What a lock held for long kept from the file is written by a later call") {
  const TempDir dir;
  const Variants variants(3);
  LogLines log;
  Recorder recorder(dir.str("m.json"), Logger(log.sink()));
  recorder.used(variants.one(0));
  {
    const cache::test::SleepingChild holder([&] {
      const int handle = open(dir.str("m.json.lock").c_str(), O_RDWR);
      flock(handle, LOCK_EX);
      return handle;
    });
    REQUIRE(holder.ready());
    recorder.used(variants.one(1));
    CHECK(recorder.on());
    CHECK(manifest(dir.str("m.json")).variants.size() == 1);
  }
  recorder.used(variants.one(2));
  CHECK(manifest(dir.str("m.json")).variants.size() == 3);
  REQUIRE(log.lines().size() == 1);
  CHECK(log.lines().front().find("m.json.lock for 2 s") != std::string::npos);
}

}  // namespace kiln::test
