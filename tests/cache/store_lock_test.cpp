#include <cerrno>
#include <filesystem>

#include "cache/store.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {
namespace {

using namespace test;

struct Place {
  bool locks(Store& store) { return store.lock(entry.source, entry.toolchain).held(); }

  kiln::test::TempDir dir;
  std::string root = dir.str("root");
  LogLines log;
  std::shared_ptr<FaultyFileSystem> disk = std::make_shared<FaultyFileSystem>();
  Entry entry = sample_entry();
};

}  // namespace

TEST_CASE("A store with a writable root locks below it") {
  Place at;
  Store store(options_at(at.root, at.log, at.disk));
  CHECK(at.locks(store));
  CHECK(files_below(at.root + "/v1/locks").size() == 1);
}

TEST_CASE("A store that can write nowhere locks nowhere") {
  Place at;
  at.disk->fail(Call::kCheckWritable, EROFS, 1);
  Store store(options_at(at.root, at.log, at.disk));
  CHECK_FALSE(at.locks(store));
  CHECK(at.disk->writing_calls() == 0);
}

TEST_CASE("Once a full disk has turned writes off nobody waits for a kernel that cannot come") {
  Place at;
  Store store(options_at(at.root, at.log, at.disk));
  at.disk->fail(Call::kWrite, ENOSPC, 1);
  CHECK_FALSE(store.publish(at.entry));
  CHECK_FALSE(at.locks(store));
}

TEST_CASE("Neither a hit nor a miss makes a call for a lock (field report 21)") {
  Place at;
  Store store(options_at(at.root, at.log, at.disk));
  CHECK_FALSE(find(store, at.entry.source, &at.entry.toolchain));
  REQUIRE(store.publish(at.entry));
  CHECK(find(store, at.entry.source, &at.entry.toolchain));
  CHECK(at.disk->calls(Call::kOpenLock) == 0);
  CHECK(at.disk->calls(Call::kTryLock) == 0);
}

TEST_CASE("A lookup that is repeated under the lock counts one miss") {
  Place at;
  Store store(options_at(at.root, at.log, at.disk));
  Query query;
  query.sources = {&at.entry.source, 1};
  query.toolchain = &at.entry.toolchain;
  CHECK_FALSE(store.lookup(query));
  query.asked_before = true;
  CHECK_FALSE(store.lookup(query));
  CHECK(store.counters().misses == 1);
}

TEST_CASE("Clearing leaves the lock files, which others may hold") {
  Place at;
  Store store(options_at(at.root, at.log, at.disk));
  CHECK(at.locks(store));
  REQUIRE(store.publish(at.entry));
  CHECK(store.clear() == std::uint64_t{1});
  CHECK(files_below(at.root).size() == 1);
  CHECK(files_below(at.root + "/v1/locks").size() == 1);
}

}  // namespace kiln::cache
