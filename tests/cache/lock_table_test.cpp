#include "cache/lock_table.hpp"

#include <cerrno>
#include <filesystem>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

#include "tests/cache/child.hpp"
#include "tests/cache/fake_clock.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {
namespace {

using namespace test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr Digest kSource{0x1200000000000000, 0};
constexpr Digest kToolchain{0x0100000000000000, 0};
constexpr const char* kName = "/v1/locks/13";

// A table on a root of its own.
struct Place {
  explicit Place(const LockTimes& times = {}, std::shared_ptr<WaitClock> with_clock = nullptr)
      : root(*disk.canonical(dir.str()) + "/root"),
        layer(disk, root, TrustRole::kNamedRoot, TrustPolicy::of_process()),
        publisher(disk, layer, RootPlan()),
        table(disk, Layout(root), publisher, log.logger(), times,
              with_clock ? std::move(with_clock) : clock) {}
  CompileLock acquire() { return table.acquire(kSource, kToolchain); }
  std::string path() const { return root + kName; }

  kiln::test::TempDir dir;
  LogLines log;
  FaultyFileSystem disk;
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>();
  std::string root;
  DirectoryLayer layer;
  Publisher publisher;
  LockTable table;
};

// Writes a line as a holder that lives and beats would.
void beat(const std::string& path, int beats) {
  std::string line = "elsewhere 4711 0123456789abcdef " + std::to_string(beats);
  line.resize(127, ' ');
  std::ofstream(path, std::ios::binary | std::ios::in) << line << '\n';
}

// A holder without a thread of its own, so that the test says when it beats.
class SilentHolder {
 public:
  explicit SilentHolder(Place& at) : disk_(at.disk), file_(disk_, open(at)) {
    REQUIRE(disk_.try_lock(file_.get()));
  }
  void release() { static_cast<void>(disk_.unlock(file_.get())); }

 private:
  static FileSystem::Handle open(Place& at) {
    static_cast<void>(at.acquire());  // Makes the file.
    return *at.disk.open_lock(at.path(), 0600);
  }
  FileSystem& disk_;
  OpenFile file_;
};

}  // namespace

TEST_CASE("A free lock is taken at once, and its file stays") {
  Place at;
  for (int i = 0; i < 3; ++i) {
    CHECK(at.acquire().held());
  }
  CHECK(at.clock->sleeps() == 0);
  CHECK(files_below(at.root) == std::vector<std::string>{at.path()});
  CHECK(at.log.lines().empty());
}

TEST_CASE("A lock's name is the first byte of both digests together") {
  Place at;
  std::set<std::string> names;
  for (std::uint64_t byte = 0; byte < 256; ++byte) {
    CHECK(at.table.acquire({byte << 56U, byte}, {0, 1}).held());
  }
  CHECK(files_below(at.root).size() == 256);
  CHECK(at.table.acquire({0xff00000000000000, 7}, {0x0f00000000000000, 9}).held());
  CHECK(files_below(at.root).size() == 256);
}

TEST_CASE("Kernels of two locks do not wait for each other") {
  Place at;
  const CompileLock one = at.acquire();
  const CompileLock other = at.table.acquire({0, 0}, kToolchain);
  CHECK(one.held());
  CHECK(other.held());
  CHECK(at.clock->sleeps() == 0);
}

TEST_CASE("A lock excludes processes") {
  Place at({}, std::make_shared<SteadyWaitClock>());
  const std::string marker = at.dir.str("inside");
  const int failures = failures_of_children(4, [&](int) -> std::string {
    for (int turn = 0; turn < 10; ++turn) {
      const CompileLock lock = at.acquire();
      const int made = open(marker.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
      if (!lock.held() || made < 0) {
        return "two are inside";
      }
      close(made);
      std::this_thread::yield();
      unlink(marker.c_str());
    }
    return "";
  });
  CHECK(failures == 0);
}

TEST_CASE("The lock of a killed holder is free at once, with nothing removed (field report 18)") {
  Place at;
  SleepingChild holder([&] { return at.acquire(); });
  REQUIRE(holder.ready());
  holder.kill();
  CHECK(at.acquire().held());
  CHECK(at.clock->sleeps() == 0);
  CHECK(fs::exists(at.path()));
}

TEST_CASE("A stopped holder delays a waiter by a bounded time (field report 17)") {
  Place at;
  SleepingChild holder([&] { return at.acquire(); });
  REQUIRE(holder.ready());
  holder.stop();
  CHECK_FALSE(at.acquire().held());
  CHECK(at.clock->now() >= 20s);
  CHECK(at.clock->now() <= 22s);
  CHECK(at.log.text().find("has not moved for 20 s") != std::string::npos);
  CHECK(at.log.text().find("compiles for itself") != std::string::npos);
}

TEST_CASE("A holder beats while it holds, and each holding tells itself from all others") {
  LockTimes times;
  times.beat_every = 1ms;
  Place at(times);
  std::set<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    const CompileLock lock = at.acquire();
    const std::string first = read_bytes(at.path());
    CHECK(first.size() == 128);
    CHECK(first.back() == '\n');
    CHECK(first.find(' ' + std::to_string(getpid()) + ' ') != std::string::npos);
    ids.insert(first.substr(0, first.rfind(' ', first.find("  ") - 1)));  // All but the beats.
    while (read_bytes(at.path()) == first) {
      std::this_thread::yield();
    }
  }
  CHECK(ids.size() == 2);
}

TEST_CASE("A compile of ten minutes that shows progress is waited for (field report 20)") {
  Place at;
  SilentHolder holder(at);
  int beats = 0;
  at.clock->on_sleep([&] {
    if (at.clock->now() > beats * 2s) {
      beat(at.path(), ++beats);
    }
    if (at.clock->now() > 595s) {
      holder.release();
    }
  });
  CHECK(at.acquire().held());
  CHECK(at.clock->now() > 595s);
  CHECK(at.log.lines().size() == 1);  // That it waits; never that it gave up.
}

TEST_CASE("Waiting ends at its limit though the holder lives (field report 19)") {
  LockTimes times;
  times.wait_limit = 60s;
  Place at(times);
  SilentHolder holder(at);
  int beats = 0;
  at.clock->on_sleep([&] { beat(at.path(), ++beats); });
  CHECK_FALSE(at.acquire().held());
  CHECK(at.clock->now() >= 60s);
  CHECK(at.clock->now() <= 61s);
  CHECK(at.log.text().find("limit") != std::string::npos);
}

TEST_CASE("A holder that was found stopped delays no second kernel of its lock") {
  Place at;
  SilentHolder holder(at);
  CHECK_FALSE(at.acquire().held());
  const auto first = at.clock->now();
  CHECK_FALSE(at.acquire().held());
  CHECK(at.clock->now() - first < 1s);
  beat(at.path(), 1);  // It has moved on after all.
  CHECK_FALSE(at.acquire().held());
  CHECK(at.clock->now() - first >= 20s);
}

TEST_CASE("With no time to wait a busy lock is passed by") {
  LockTimes times;
  times.wait_limit = 0s;
  Place at(times);
  SilentHolder holder(at);
  CHECK_FALSE(at.acquire().held());
  CHECK(at.clock->sleeps() == 0);
}

TEST_CASE(
    "A wait over ten seconds names lock, host, pid and time, once (field reports 19 and 114)") {
  Place at;
  SilentHolder holder(at);
  int beats = 0;
  at.clock->on_sleep([&] {
    beat(at.path(), ++beats);
    if (at.clock->now() < 10s) {
      CHECK(at.log.lines().empty());
    }
    if (at.clock->now() > 30s) {
      holder.release();
    }
  });
  CHECK(at.acquire().held());
  REQUIRE(at.log.lines().size() == 1);
  for (const char* part : {kName, "elsewhere", "4711", "10 s"}) {
    CHECK(at.log.text().find(part) != std::string::npos);
  }
}

TEST_CASE("A waiter that was itself stopped does not blame the holder") {
  Place at;
  SilentHolder holder(at);
  int beats = 0;
  bool stopped = false;
  at.clock->on_sleep([&] {
    if (at.clock->now() > 5s && !stopped) {
      stopped = true;
      at.clock->advance(300s);  // And the holder with it: no beat in this time.
    } else if (at.clock->now() > beats * 2s) {
      beat(at.path(), ++beats);
    }
    if (at.clock->now() > 400s) {
      holder.release();
    }
  });
  CHECK(at.acquire().held());
}

TEST_CASE("Any failure to open or take a lock means to compile at once") {
  const int error = GENERATE(EIO, ENOSPC, EDQUOT, EACCES, EROFS, ESTALE, EMFILE, ENOLCK, ENOSYS,
                             EOPNOTSUPP, EPERM);
  const Call call = GENERATE(Call::kOpenLock, Call::kTryLock, Call::kMakeDirectory);
  Place at;
  at.disk.fail(call, error);
  CHECK_FALSE(at.acquire().held());
  CHECK_FALSE(at.acquire().held());
  CHECK(at.clock->sleeps() == 0);
  CHECK(at.log.lines().size() == (call == Call::kMakeDirectory ? 0 : 1));
  at.disk.heal();
  CHECK(at.acquire().held());
}

TEST_CASE("A holder that cannot write its line holds all the same") {
  Place at;
  at.disk.fail(Call::kWriteAt, ENOSPC);
  const CompileLock lock = at.acquire();
  CHECK(lock.held());
  CHECK_FALSE(at.acquire().held());
  CHECK(at.clock->now() <= 22s);
  CHECK(at.log.text().find("an unknown holder") != std::string::npos);
}

TEST_CASE("A forked child that keeps a copy of the handle does not keep the lock") {
  Place at;
  CompileLock lock = at.acquire();
  SleepingChild child([] { return 0; });
  REQUIRE(child.ready());
  lock = CompileLock();
  CHECK(at.acquire().held());
  CHECK(at.clock->sleeps() == 0);
}

TEST_CASE("What somebody wrote into a lock file does not reach the log as it is") {
  Place at;
  SilentHolder holder(at);
  const std::string content =
      GENERATE(std::string(), std::string("\x1b[31m evil 1 x"), std::string("a\nb c d"),
               std::string(128, '\0'), std::string(128, 'x'), std::string(100000, ' '));
  write_bytes(at.path(), content);
  CHECK_FALSE(at.acquire().held());
  CHECK(at.log.text().find("an unknown holder") != std::string::npos);
  CHECK(at.log.text().find('\x1b') == std::string::npos);
}

TEST_CASE("A link in a lock's place is not followed, and a folder or pipe does no harm") {
  Place at;
  fs::create_directories(at.root + "/v1/locks");
  SECTION("link") {
    fs::create_symlink(at.dir.str("victim"), at.path());
    CHECK_FALSE(at.acquire().held());
    CHECK_FALSE(fs::exists(at.dir.str("victim")));
  }
  SECTION("folder") {
    fs::create_directory(at.path());
    CHECK_FALSE(at.acquire().held());
  }
  SECTION("pipe") {
    REQUIRE(mkfifo(at.path().c_str(), 0600) == 0);
    static_cast<void>(at.acquire());  // Held or not, it returns.
  }
  CHECK(at.clock->sleeps() == 0);
}

TEST_CASE("A lock moves and is given back once") {
  Place at;
  CompileLock first = at.acquire();
  CompileLock second = std::move(first);
  CHECK_FALSE(first.held());  // NOLINT(bugprone-use-after-move): moving leaves nothing held.
  CHECK(second.held());
  first = std::move(second);
  CHECK(first.held());
  first = CompileLock();
  CHECK(at.disk.calls(Call::kUnlock) == 1);
  CHECK(at.acquire().held());
}

}  // namespace kiln::cache
