#include "cache/trimmer.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <thread>

#include "cache/store.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {
namespace {

using namespace test;
namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr seconds kStart{1'700'000'000};

Trimmable file(const std::string& path, std::uint64_t bytes, seconds used,
               bool quarantined = false) {
  return {path, bytes, used, quarantined};
}

std::vector<std::string> paths_of(const std::vector<Trimmable>& files) {
  std::vector<std::string> paths;
  for (const Trimmable& file : files) {
    paths.push_back(file.path);
  }
  return paths;
}

using Paths = std::vector<std::string>;

// One root with a clock of its own.
struct Place {
  Place() { disk->set_clock(kStart); }
  std::string root() const { return dir.str("root"); }
  StoreOptions options(const Limits& limits) {
    StoreOptions options = options_at(root(), log, disk);
    options.limits = limits;
    return options;
  }
  static Entry kernel(int index) {
    return sample_entry(sample_source("sm_90a", std::to_string(index)), sample_toolchain(), 5000);
  }
  bool is_there(int index) const { return fs::exists(entry_path(root(), kernel(index))); }
  std::uint64_t disk_bytes() const {
    std::uint64_t bytes = 0;
    for (const std::string& path : files_below(root() + "/v1")) {
      bytes += disk->status(path)->allocated;
    }
    return bytes;
  }

  kiln::test::TempDir dir;
  LogLines log;
  std::shared_ptr<FaultyFileSystem> disk = std::make_shared<FaultyFileSystem>();
};

std::uint64_t bytes_of_one(Place& at) {
  Store store(at.options({}));
  REQUIRE(store.publish(Place::kernel(0)));
  const auto status = at.disk->status(entry_path(at.root(), Place::kernel(0)));
  fs::remove_all(at.root());
  return std::max(status->size, status->allocated);
}

}  // namespace

TEST_CASE("The least recently used go until nine tenths of the limit are left") {
  const seconds now = kStart;
  std::vector<Trimmable> all;
  for (int i = 0; i < 10; ++i) {
    all.push_back(file(std::to_string(i), 100, now - hours(i + 1)));
  }
  CHECK(choose_trimmed(all, {1000, {}}, now, "").empty());
  CHECK(paths_of(choose_trimmed(all, {999, {}}, now, "")) == Paths{"9"});
  CHECK(paths_of(choose_trimmed(all, {500, {}}, now, "")) == Paths{"9", "8", "7", "6", "5", "4"});
  CHECK(choose_trimmed(all, {}, now, "").empty());
}

TEST_CASE("What is older than the age limit goes, whatever the size") {
  const seconds now = kStart;
  const std::vector<Trimmable> all = {file("a", 1, now - hours(10)), file("b", 1, now - hours(11))};
  CHECK(paths_of(choose_trimmed(all, {{}, hours(10)}, now, "")) == Paths{"b"});
  CHECK(choose_trimmed(all, {{}, hours(11)}, now, "").empty());
}

TEST_CASE("What was just used, what is from the future and what is kept stays") {
  const seconds now = kStart;
  const std::vector<Trimmable> all = {
      file("kept", 100, now - hours(9)), file("old", 100, now - minutes(2)),
      file("new", 100, now - seconds(59)), file("tomorrow", 100, now + hours(24))};
  CHECK(paths_of(choose_trimmed(all, {1, seconds(1)}, now, "kept", minutes(1))) == Paths{"old"});
  CHECK(paths_of(choose_trimmed(all, {1, {}}, now, "kept")) == Paths{"old", "new", "tomorrow"});
}

TEST_CASE("A stamp from far in the future goes first, since its clock was wrong") {
  const seconds now = kStart;
  const std::vector<Trimmable> all = {file("old", 100, now - hours(9)),
                                      file("far", 100, now + hours(48))};
  CHECK(paths_of(choose_trimmed(all, {150, {}}, now, "", minutes(1))) == Paths{"far"});
  CHECK(paths_of(choose_trimmed(all, {{}, hours(10)}, now, "", minutes(1))) == Paths{"far"});
}

TEST_CASE("The quarantine goes first, however new") {
  const seconds now = kStart;
  const std::vector<Trimmable> all = {file("entry", 100, now - hours(9)),
                                      file("rejected", 100, now, true)};
  CHECK(paths_of(choose_trimmed(all, {150, {}}, now, "")) == Paths{"rejected"});
}

TEST_CASE("No publish ends above the limit, and the latest is always there (field report 71)") {
  Place at;
  const std::uint64_t max_bytes = bytes_of_one(at) * 20;
  Store store(at.options({max_bytes, {}}));
  for (int i = 0; i < 100; ++i) {
    REQUIRE(store.publish(Place::kernel(i)));
    CHECK(at.disk_bytes() <= max_bytes);
    CHECK(at.is_there(i));
    at.disk->advance_clock(minutes(2));
  }
  CHECK(at.disk_bytes() > max_bytes / 2);  // And it does not remove more than it must.
  CHECK_FALSE(at.is_there(50));
  CHECK(store.counters().trimmed > 70);
  CHECK(at.log.lines().empty());
}

TEST_CASE(
    "A kernel hit daily for 60 days survives trimming while younger, unused ones go (field report "
    "71)") {
  Place at;
  const std::uint64_t max_bytes = bytes_of_one(at) * 20;
  const Limits limits = GENERATE_COPY(Limits{max_bytes, {}}, Limits{max_bytes, hours(24 * 10)},
                                      Limits{{}, hours(24 * 10)});
  const Entry daily = Place::kernel(0);
  REQUIRE(Store(at.options(limits)).publish(daily));
  for (int day = 1; day <= 60; ++day) {
    at.disk->advance_clock(hours(24));
    Store store(at.options(limits));  // Each day a new process.
    REQUIRE(find(store, daily.source, &daily.toolchain));
    REQUIRE(store.publish(Place::kernel(2 * day)));
    REQUIRE(store.publish(Place::kernel(2 * day + 1)));
  }
  CHECK(at.is_there(0));
  CHECK(at.is_there(121));
  CHECK_FALSE(at.is_there(2));
  CHECK_FALSE(at.is_there(60));
  CHECK(at.log.lines().empty());
}

TEST_CASE("A hit writes nothing without a limit, nor when its stamp is at most a day old") {
  Place at;
  const Entry entry = Place::kernel(0);
  REQUIRE(Store(at.options({})).publish(entry));
  const Limits limits = GENERATE(Limits{}, Limits{1 << 20, {}}, Limits{{}, hours(24 * 30)});
  at.disk->advance_clock(limits.any() ? hours(24) : hours(24 * 365));
  Store store(at.options(limits));
  at.disk->reset_counts();
  REQUIRE(find(store, entry.source, &entry.toolchain));
  CHECK(at.disk->writing_calls() == 0);
  if (limits.any()) {
    at.disk->advance_clock(seconds(1));
    REQUIRE(find(store, entry.source, &entry.toolchain));
    CHECK(at.disk->calls(Call::kTouch) == 1);
    REQUIRE(find(store, entry.source, &entry.toolchain));
    CHECK(at.disk->calls(Call::kTouch) == 1);
    CHECK(at.disk->writing_calls() == 1);
  }
}

TEST_CASE("A hit in a read-only layer leaves its stamp alone, limits or not") {
  Place at;
  const Entry entry = Place::kernel(0);
  const std::string path = entry_path(at.dir.str("layer"), entry);
  write_bytes(path, encode_entry(entry));
  at.disk->set_clock(std::chrono::duration_cast<seconds>(at.disk->status(path)->modified) +
                     hours(24 * 90));
  StoreOptions options = at.options({1, seconds(1)});
  options.read_only_layers = {at.dir.str("layer")};
  Store store(options);
  REQUIRE(find(store, entry.source, &entry.toolchain));
  CHECK(at.disk->writing_calls() == 0);
  REQUIRE(store.publish(Place::kernel(1)));
  CHECK(fs::exists(path));
}

TEST_CASE("With stamps that cannot be written, hits and misses are the same (field report 25)") {
  Place at;
  const Entry entry = Place::kernel(0);
  REQUIRE(Store(at.options({})).publish(entry));
  at.disk->advance_clock(hours(48));
  at.disk->fail(Call::kTouch, GENERATE(EACCES, EROFS, EIO));
  Store store(at.options({1 << 20, {}}));
  CHECK(find(store, entry.source, &entry.toolchain));
  CHECK_FALSE(find(store, sample_source("sm_90a", "absent"), &entry.toolchain));
  CHECK(at.disk->faults() == 1);
  CHECK(store.counters().hits == 1);
  CHECK(store.counters().misses == 1);
  CHECK(at.log.lines().empty());
}

TEST_CASE("What was just published survives though it is larger than the limit") {
  Place at;
  Store store(at.options({1, {}}));
  REQUIRE(store.publish(Place::kernel(0)));
  CHECK(at.is_there(0));
  at.disk->advance_clock(hours(1));
  REQUIRE(store.publish(Place::kernel(1)));
  CHECK_FALSE(at.is_there(0));
  CHECK(at.is_there(1));
}

TEST_CASE("Foreign files and files without an entry's name stay, with one warning for all") {
  Place at;
  const std::string folder = at.root() + "/v1/sm_90a/" + sample_toolchain().folder();
  const std::vector<std::string> foreign = {at.root() + "/v1/README.md",
                                            at.root() + "/v1/sm_90a/notes.txt",
                                            folder + "/x.cubin",
                                            folder + "/" + digest("x").hex() + ".cubin.bak",
                                            at.root() + "/v1/quarantine/foreign",
                                            at.root() + "/precious"};
  for (const std::string& path : foreign) {
    write_bytes(path, std::string(100'000, 'x'));
  }
  Store store(at.options({1, seconds(1)}));
  for (int i = 0; i < 3; ++i) {
    REQUIRE(store.publish(Place::kernel(i)));
    at.disk->advance_clock(hours(1));
  }
  for (const std::string& path : foreign) {
    INFO(path);
    CHECK(fs::exists(path));
  }
  CHECK_FALSE(at.is_there(1));
  CHECK(at.log.lines().size() == 1);
  CHECK(at.log.text().find("is not a file of the cache") != std::string::npos);
}

TEST_CASE("A folder that trimming emptied goes too, and a publish makes it again") {
  Place at;
  const Entry old = sample_entry(sample_source("sm_80"), sample_toolchain(12, 4));
  Store store(at.options({{}, hours(24)}));
  REQUIRE(store.publish(old));
  at.disk->advance_clock(hours(48));
  CHECK(Store(at.options({{}, hours(24)})).gc({{}, hours(24)})->trim.removed == 1);
  CHECK_FALSE(fs::exists(at.root() + "/v1/sm_80"));
  REQUIRE(store.publish(old));
  CHECK(find(store, old.source, &old.toolchain));
}

TEST_CASE(
    "Concurrent trimmers remove nothing that was just published, and no error shows (field report "
    "70)") {
  const kiln::test::TempDir dir;
  LogLines log;
  constexpr int kThreads = 4;
  constexpr int kEach = 40;
  std::atomic<int> lost = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      StoreOptions options = options_at(dir.str("root"), log);
      options.limits = {1, {}};  // So that each publish wants to remove all the others.
      Store store(options);      // As of a process of its own.
      for (int i = 0; i < kEach; ++i) {
        const Entry entry = Place::kernel(t * kEach + i);
        const bool kept = store.publish(entry) && find(store, entry.source, &entry.toolchain);
        lost += kept ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(lost == 0);
  CHECK(log.text() == "");
}

TEST_CASE("Trimmers that meet over one set of old entries remove each of them once") {
  Place at;
  {
    Store store(at.options({}));
    for (int i = 0; i < 50; ++i) {
      REQUIRE(store.publish(Place::kernel(i)));
    }
  }
  at.disk->advance_clock(hours(48));
  std::atomic<std::uint64_t> removed = 0;
  std::atomic<int> problems = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const Layout layout(*at.disk->canonical(at.root()));
      const Logger logger = at.log.logger();
      const TrimReport report = Trimmer(*at.disk, layout, {}, logger).trim({{}, hours(24)});
      removed += report.removed;
      problems += report.problem.empty() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(removed == 50);
  CHECK(problems == 0);
  CHECK(files_below(at.root() + "/v1").empty());
}

TEST_CASE("An entry that was used or published again after it was listed is spared") {
  // Between a trimmer's listing and its removing, somebody uses the file.
  class Meanwhile final : public FaultyFileSystem {
   public:
    std::string path;
    Io<std::vector<std::string>> list(const std::string& directory) override {
      auto names = FaultyFileSystem::list(directory);
      if (directory.ends_with("quarantine")) {
        static_cast<void>(touch(path));
      }
      return names;
    }
  };
  const kiln::test::TempDir dir;
  LogLines log;
  Meanwhile disk;
  disk.set_clock(kStart);
  const Entry entry = sample_entry();
  const Layout layout(*disk.canonical(dir.str()));
  disk.path = entry_path(layout.root(), entry);
  write_bytes(disk.path, encode_entry(entry));
  CHECK(disk.touch(disk.path));
  disk.advance_clock(hours(48));
  const Logger logger = log.logger();
  CHECK(Trimmer(disk, layout, {}, logger).trim({1, hours(1)}).removed == 0);
  CHECK(fs::exists(disk.path));
}

TEST_CASE("A trim that the disk refuses is one warning, and no publish fails of it") {
  Place at;
  Store store(at.options({1, {}}));
  REQUIRE(store.publish(Place::kernel(0)));
  at.disk->advance_clock(hours(1));
  at.disk->fail(GENERATE(Call::kList, Call::kRemove), EIO);
  CHECK(store.publish(Place::kernel(1)));
  CHECK(store.publish(Place::kernel(2)));
  CHECK(at.log.lines().size() == 1);
}

}  // namespace kiln::cache
