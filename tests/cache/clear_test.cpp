#include "cache/clear.hpp"

#include <cerrno>
#include <filesystem>

#include "tests/cache/place.hpp"
#include "tests/support/catch.hpp"

namespace kiln::cache {
namespace {

using namespace test;
namespace fs = std::filesystem;

}  // namespace

TEST_CASE("Clearing removes what the store wrote to its root, and nothing else") {
  Place at;
  const Entry entry = sample_entry();
  at.put(entry, at.root());
  at.put(sample_entry(sample_source("sm_80")), at.root());
  const std::string shipped = at.put(entry, at.dir.str("layer"));
  write_bytes(at.root() + "/v1/quarantine/0000000000000001-sm_90-x-y.cubin", "bad");
  write_bytes(at.root() + "/v1/tmp/host.1.0123456789abcdef.tmp", "half");
  const std::vector<std::string> foreign = {
      at.root() + "/precious", at.root() + "/v1/quarantine/notes.txt",
      at.root() + "/v1/sm_90a/notes.txt", at.root() + "/v1/tmp/sort.X7Yz"};
  for (const std::string& path : foreign) {
    write_bytes(path, "x");
  }
  Store store(at.options);
  CHECK(store.clear() == std::uint64_t{2});
  std::vector<std::string> left = {shipped};
  left.insert(left.end(), foreign.begin(), foreign.end());
  CHECK(files_below(at.dir.str()) == left);
  REQUIRE(at.log.lines().size() == 1);
  CHECK(at.log.text().find("3 in all") != std::string::npos);
  CHECK_FALSE(fs::exists(at.root() + "/v1/sm_80"));
  CHECK(store.publish(entry));
  CHECK(find(store, entry.source, &entry.toolchain));
}

TEST_CASE("Clearing an empty or missing root removes nothing and succeeds") {
  Place at;
  CHECK(Store(at.options).clear() == std::uint64_t{0});
}

TEST_CASE("Clearing reports what it cannot remove and goes on") {
  Place at;
  at.put(sample_entry(), at.root());
  at.put(sample_entry(sample_source("sm_80")), at.root());
  Store store(at.options);
  at.disk->fail(Call::kRemove, EACCES, 1);
  const auto cleared = store.clear();
  REQUIRE_FALSE(cleared);
  CHECK(cleared.error().message.find("Permission denied") != std::string::npos);
  CHECK(store.list().size() == 1);
}

TEST_CASE("A root that cannot be written cannot be cleared") {
  Place at;
  at.put(sample_entry(), at.root());
  at.disk->fail(Call::kCheckWritable, EROFS, 1);
  Store store(at.options);
  CHECK_FALSE(store.clear());
  CHECK(store.list().size() == 1);
}

TEST_CASE("Clearing leaves the locks where their holders and waiters look for them") {
  Place at;
  const Entry entry = sample_entry();
  Store store(at.options);
  {
    const CompileLock lock = store.lock(entry.source, entry.toolchain);
    CHECK(lock.held());
  }
  const auto locks = files_below(at.root() + "/v1/locks");
  CHECK(locks.size() == 1);
  REQUIRE(store.clear());
  CHECK(files_below(at.root() + "/v1/locks") == locks);
}

TEST_CASE("A folder in an entry's place is removed when it is empty, and else is foreign") {
  Place at;
  const Entry entry = sample_entry();
  const std::string path = entry_path(at.root(), entry);
  fs::create_directories(path);
  const bool empty = GENERATE(true, false);
  if (!empty) {
    write_bytes(path + "/precious", "x");
  }
  Store store(at.options);
  CHECK(store.clear() == std::uint64_t{0});
  CHECK(fs::exists(path) == !empty);
  CHECK(at.log.lines().size() == (empty ? 0 : 1));
}

TEST_CASE("A publish does not fail because the cache is cleared between any two of its steps") {
  // Clears just before the n-th of the calls that a publish needs its folders for.
  class Cleared final : public FaultyFileSystem {
   public:
    int countdown = 0;
    std::string root;
    Io<void> make_directory(const std::string& path, mode_t mode) override {
      step();
      return FaultyFileSystem::make_directory(path, mode);
    }
    Io<Handle> create(const std::string& path, mode_t mode) override {
      step();
      return FaultyFileSystem::create(path, mode);
    }
    Io<void> sync(Handle handle) override {
      step();
      return FaultyFileSystem::sync(handle);
    }
    Io<void> rename(const std::string& from, const std::string& to) override {
      step();
      return FaultyFileSystem::rename(from, to);
    }

   private:
    void step() {
      if (--countdown == 0) {
        PosixFileSystem real;
        CHECK(clear_root(real, Layout(root)).problem.empty());
      }
    }
  };
  constexpr int kSteps = 8;  // Five folders, and the temporary file's creation, sync and rename.
  for (int n = 1; n <= kSteps; ++n) {
    INFO("step " << n);
    Place at;
    auto disk = std::make_shared<Cleared>();
    disk->root = at.root();
    disk->countdown = n;
    Store store(options_at(at.root(), at.log, disk));
    const Entry entry = sample_entry();
    CHECK(store.publish(entry));
    CHECK(find(store, entry.source, &entry.toolchain));
    CHECK(files_below(at.root()).size() == 1);
    CHECK(at.log.text() == "");
  }
}

}  // namespace kiln::cache
