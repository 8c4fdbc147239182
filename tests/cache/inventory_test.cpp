#include "cache/inventory.hpp"

#include <cerrno>
#include <filesystem>

#include "tests/cache/place.hpp"
#include "tests/support/catch.hpp"

namespace kiln::cache {
namespace {

using namespace test;
namespace fs = std::filesystem;

}  // namespace

TEST_CASE("A listing shows every entry of every layer, sorted, with what it says of itself") {
  Place at;
  const Entry first = sample_entry(sample_source("sm_100a"));
  const Entry second = sample_entry(sample_source("sm_90a"));
  at.put(second, at.root());
  at.put(first, at.root());
  at.put(first, at.dir.str("layer"));
  write_bytes(at.root() + "/v1/sm_90a/notes.txt", "x");
  Store store(at.options);
  const auto listed = store.list();
  REQUIRE(listed.size() == 3);
  CHECK(listed[0].path == entry_path(at.root(), first));
  CHECK(listed[0].layer == at.root());
  CHECK(listed[0].target == "sm_100a");
  CHECK(listed[0].toolchain == first.toolchain.folder());
  CHECK(listed[0].source == first.source.digest.hex());
  CHECK(listed[0].bytes == encode_entry(first).size());
  CHECK(listed[0].symbol == first.symbol);
  CHECK(listed[0].label == first.label);
  CHECK(listed[0].ok);
  CHECK(listed[0].problem.empty());
  CHECK(listed[1].path == entry_path(at.root(), second));
  CHECK(listed[2].layer == at.dir.str("layer"));
  CHECK(store.verify().empty());
  CHECK(at.disk->writing_calls() == 0);
}

TEST_CASE("Verifying names what is damaged or misplaced, and moves nothing") {
  Place at;
  const Entry entry = sample_entry();
  const Entry other = sample_entry(sample_source("sm_90a", "b"));
  const Entry foreign = sample_entry(sample_source("sm_90a", "c"), sample_toolchain(12, 8));
  at.put(entry, at.root());
  SECTION("truncated") {
    write_bytes(entry_path(at.root(), other), encode_entry(other).substr(0, 100));
  }
  SECTION("empty") {
    write_bytes(entry_path(at.root(), other), "");
  }
  SECTION("under another source's name") {
    write_bytes(entry_path(at.root(), other), encode_entry(entry));
  }
  SECTION("in another toolchain's folder") {
    Entry misplaced = foreign;
    misplaced.toolchain = sample_toolchain(12, 9);
    write_bytes(entry_path(at.root(), misplaced), encode_entry(foreign));
  }
  SECTION("a link") {
    fs::create_symlink(entry_path(at.root(), entry), entry_path(at.root(), other));
  }
  Store store(at.options);
  const auto before = files_below(at.dir.str());
  const auto bad = store.verify();
  REQUIRE(bad.size() == 1);
  CHECK_FALSE(bad[0].ok);
  CHECK_FALSE(bad[0].problem.empty());
  CHECK(store.list().size() == 2);
  CHECK(files_below(at.dir.str()) == before);
}

TEST_CASE("A folder that cannot be listed is a problem, not an empty folder") {
  Place at;
  at.put(sample_entry(), at.root());
  Store store(at.options);
  at.disk->fail(Call::kList, EACCES, 2);
  const auto bad = store.verify();
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].path == at.root() + "/v1/sm_90a");
  CHECK(bad[0].problem.find("Permission denied") != std::string::npos);
}

TEST_CASE("A folder that cannot be measured is a problem, not an empty folder") {
  Place at;
  at.put(sample_entry(), at.root());
  Store store(at.options);
  at.disk->fail(Call::kList, EACCES, GENERATE(1, 2, 3));
  const StoreUsage usage = store.stat();
  CHECK(usage.entries == 0);
  CHECK(usage.problem.find("Permission denied") != std::string::npos);
  CHECK(usage.problem.find(at.root()) != std::string::npos);
}

TEST_CASE("A root that may not be used is a problem, not an empty cache") {
  Place at;
  at.put(sample_entry(), at.root());
  fs::permissions(at.root(), fs::perms::all);
  const StoreUsage usage = Store(at.options).stat();
  CHECK(usage.entries == 0);
  CHECK(usage.problem.find("everybody can write it") != std::string::npos);
}

TEST_CASE("Usage counts entries, bytes and the quarantine") {
  Place at;
  const Entry entry = sample_entry();
  at.put(entry, at.root());
  at.put(entry, at.dir.str("layer"));
  write_bytes(at.root() + "/v1/quarantine/x", "bad");
  Store store(at.options);
  const StoreUsage usage = store.stat();
  CHECK(usage.entries == 2);
  CHECK(usage.bytes == 2 * encode_entry(entry).size());
  CHECK(usage.quarantined == 1);
  CHECK(usage.problem.empty());
  CHECK(at.disk->calls(Call::kOpenForRead) == 0);
}

TEST_CASE("A listed entry can be read, and a bad one says why not") {
  Place at;
  const Entry entry = sample_entry();
  const std::string path = at.put(entry, at.root());
  Store store(at.options);
  const ListedEntry listed = store.list().front();
  CHECK(same(*store.read(listed), entry));
  write_bytes(path, "bad");
  CHECK_FALSE(store.read(listed));
  fs::remove(path);
  const auto absent = store.read(listed);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().message.find("No such file") != std::string::npos);
}

}  // namespace kiln::cache
