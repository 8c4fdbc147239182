#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "cache/store.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

// Every call of the disk fails once at each of its places, and then always, with every error that
// disks have. The caller never sees more than a miss or a Status.

namespace kiln::cache {
namespace {

using namespace test;

constexpr int kEveryCall = 0;
constexpr int kErrors[] = {EIO, ENOSPC, EDQUOT, EACCES, EROFS, ESTALE, EMFILE};

// What one run saw.
struct Outcome {
  int faults = 0;
  bool stored = false;
  bool found = false;
  std::size_t warnings = 0;
  std::string text;
};

struct Scenario {
  const char* name;
  bool bad_entry_in_place;
  bool with_toolchain;
  bool group_shared;
};

constexpr Scenario kScenarios[] = {{"fresh root", false, true, false},
                                   {"fresh root, no compiler", false, false, false},
                                   {"bad entry in place", true, true, false},
                                   {"fresh root of a group", false, true, true}};

Outcome run(const Scenario& scenario, const std::string& root, Call call, int error, int nth) {
  LogLines log;
  auto disk = std::make_shared<FaultyFileSystem>();
  disk->skip_sync();
  const Entry entry = sample_entry();
  if (scenario.bad_entry_in_place) {
    write_bytes(entry_path(root, entry), "bad");
  }
  const ToolchainKey* toolchain = scenario.with_toolchain ? &entry.toolchain : nullptr;
  disk->fail(call, error, nth);
  StoreOptions options = options_at(root, log, disk);
  options.root.trust.group_shared = scenario.group_shared;
  Store store(options);
  Outcome outcome;
  const bool found_bad = find(store, entry.source, toolchain).has_value();
  {
    const CompileLock lock = store.lock(entry.source, entry.toolchain);
    outcome.stored = store.publish(entry).has_value();
  }
  const auto hit = find(store, entry.source, toolchain);
  outcome.found = hit && same(hit->entry, entry) && !found_bad;
  outcome.faults = disk->faults();
  outcome.text = log.text();
  outcome.warnings = log.lines().size();
  return outcome;
}

// No temporary file, and nothing under an entry's name that is neither whole nor the planted one.
bool is_clean(const Scenario& scenario, const std::string& root) {
  const auto files = files_below(root);
  return std::all_of(files.begin(), files.end(), [&](const std::string& path) {
    if (path.starts_with(root + "/v1/locks/")) {
      return true;
    }
    return !path.ends_with(".tmp") && (decode_entry(read_bytes(path)) ||
                                       (scenario.bad_entry_in_place && read_bytes(path) == "bad"));
  });
}

void check_outcome(const Scenario& scenario, const std::string& root, const Outcome& outcome) {
  INFO(outcome.text);
  CHECK(is_clean(scenario, root));
  const std::size_t about_bad_entry = scenario.bad_entry_in_place ? 1 : 0;
  CHECK(outcome.warnings <= 1 + about_bad_entry);
  if (!outcome.stored || !outcome.found) {
    CHECK(outcome.warnings >= 1);
  }
  // Once the disk works, so does the cache.
  LogLines log;
  auto disk = std::make_shared<FaultyFileSystem>();
  disk->skip_sync();
  Store healed(options_at(root, log, disk));
  const Entry entry = sample_entry();
  CHECK(healed.publish(entry));
  CHECK(find(healed, entry.source, &entry.toolchain));
}

}  // namespace

TEST_CASE(
    "A failing disk call is a miss or an unstored kernel, one warning, and no partial file (field "
    "report 69)") {
  const auto index = GENERATE(range(0, static_cast<int>(Call::kCount)));
  const Call call = static_cast<Call>(index);
  for (const Scenario& scenario : kScenarios) {
    for (const int error : kErrors) {
      for (int nth = 0;; ++nth) {
        const kiln::test::TempDir dir;
        INFO(scenario.name << ", call " << index << ", " << errno_text(error) << ", number "
                           << nth);
        const Outcome outcome = run(scenario, dir.str("root"), call, error, nth);
        check_outcome(scenario, dir.str("root"), outcome);
        if (outcome.faults == 0 && nth != kEveryCall) {
          break;  // There is no n-th call of this kind.
        }
      }
    }
  }
}

TEST_CASE("Every call that a store makes can be made to fail") {
  // Guards the test above against a scenario that no longer reaches a call.
  const kiln::test::TempDir dir;
  int reached = 0;
  for (int index = 0; index < static_cast<int>(Call::kCount); ++index) {
    int faults = 0;
    for (const Scenario& scenario : kScenarios) {
      const std::string root = dir.str(std::to_string(index) + scenario.name);
      faults += run(scenario, root, static_cast<Call>(index), EIO, 1).faults;
    }
    reached += faults > 0 ? 1 : 0;
  }
  // All but remove and remove_directory, which only clearing and a second failure need, reading a
  // lock's line, which only a waiter does, and touching an old entry.
  CHECK(reached == static_cast<int>(Call::kCount) - 4);
}

TEST_CASE("A disk that fills up after any number of bytes gets no partial file (field report 15)") {
  const Entry entry = sample_entry(sample_source(), sample_toolchain(), 40);
  const std::size_t size = encode_entry(entry).size();
  for (std::size_t taken = 0; taken < size; ++taken) {
    const kiln::test::TempDir dir;
    LogLines log;
    auto disk = std::make_shared<FaultyFileSystem>();
    disk->skip_sync();
    disk->fill_after(taken);
    Store store(options_at(dir.str("root"), log, disk));
    const bool stored = store.publish(entry).has_value();
    const bool found = find(store, entry.source, &entry.toolchain).has_value();
    if (stored || found || !files_below(dir.str("root")).empty() || log.lines().size() != 1) {
      FAIL("after " << taken << " bytes");
    }
  }
}

TEST_CASE(
    "A writer that dies after any byte leaves nothing that a reader accepts, and nothing for ever "
    "(field report 15)") {
  const Entry entry = sample_entry(sample_source(), sample_toolchain(), 40);
  const std::size_t size = encode_entry(entry).size();
  for (std::size_t taken = 0; taken <= size; ++taken) {
    const kiln::test::TempDir dir;
    const std::string root = dir.str("root");
    LogLines log;
    auto disk = std::make_shared<FaultyFileSystem>();
    disk->skip_sync();
    disk->die_after(taken);
    CHECK_FALSE(Store(options_at(root, log, disk)).publish(entry));
    const auto left = files_below(root);
    const bool half_written = left.size() == 1 && left[0].ends_with(".tmp") &&
                              read_bytes(left[0]) == encode_entry(entry).substr(0, taken);
    Store reader(options_at(root, log, nullptr));
    const bool found = find(reader, entry.source, &entry.toolchain).has_value();
    std::filesystem::last_write_time(
        left.at(0), std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
    const bool replaced = reader.publish(entry) && files_below(root).size() == 1;
    if (!half_written || found || !replaced) {
      FAIL("after " << taken << " bytes");
    }
  }
}

TEST_CASE("A failing close of a read, like any other, does not lose a hit's bytes") {
  const kiln::test::TempDir dir;
  const Outcome outcome = run(kScenarios[0], dir.str("root"), Call::kClose, EIO, 2);
  CHECK(outcome.faults == 1);
}

TEST_CASE("An unreadable folder listing is not remembered as an empty one") {
  const kiln::test::TempDir dir;
  LogLines log;
  const Entry entry = sample_entry();
  write_bytes(entry_path(dir.str("root"), entry), encode_entry(entry));
  auto disk = std::make_shared<FaultyFileSystem>();
  Store store(options_at(dir.str("root"), log, disk));
  disk->fail(Call::kList, EMFILE, 1);
  CHECK_FALSE(find(store, entry.source));
  CHECK(log.lines().size() == 1);
  CHECK(find(store, entry.source));
}

TEST_CASE("A read that comes in pieces is put together, and one that stops early is a miss") {
  const kiln::test::TempDir dir;
  LogLines log;
  const Entry entry = sample_entry();
  auto disk = std::make_shared<FaultyFileSystem>();
  disk->write_at_most(7);
  Store store(options_at(dir.str("root"), log, disk));
  REQUIRE(store.publish(entry));
  CHECK(disk->calls(Call::kWrite) > 10);
  CHECK(find(store, entry.source, &entry.toolchain));
}

}  // namespace kiln::cache
