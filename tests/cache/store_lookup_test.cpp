#include <chrono>
#include <filesystem>

#include <sys/stat.h>

#include "cache/store.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {
namespace {

using namespace test;
namespace fs = std::filesystem;

// A root and two read-only layers, seen through a counting disk.
struct Layers {
  Layers() {
    options = options_at(root(), log, disk);
    options.read_only_layers = {layer(0), layer(1)};
  }
  // What is not there is not listed either.
  void make_directories() const {
    for (const std::string& path : {root(), layer(0), layer(1)}) {
      fs::create_directory(path);
    }
  }
  std::string root() const { return dir.str("root"); }
  std::string layer(int index) const { return dir.str("layer" + std::to_string(index)); }
  std::string put(const std::string& directory, const Entry& entry) {
    const std::string path = entry_path(directory, entry);
    write_bytes(path, encode_entry(entry));
    return path;
  }

  kiln::test::TempDir dir;
  LogLines log;
  std::shared_ptr<FaultyFileSystem> disk = std::make_shared<FaultyFileSystem>();
  StoreOptions options;
};

}  // namespace

TEST_CASE("A published entry is found, whole") {
  Layers at;
  Store store(at.options);
  const Entry entry = sample_entry();
  CHECK_FALSE(find(store, entry.source, &entry.toolchain));
  REQUIRE(store.publish(entry));
  const auto hit = find(store, entry.source, &entry.toolchain);
  REQUIRE(hit);
  CHECK(same(hit->entry, entry));
  CHECK(hit->path == entry_path(at.root(), entry));
  CHECK(store.counters().hits == 1);
  CHECK(store.counters().misses == 1);
  CHECK(store.counters().published == 1);
  CHECK(at.log.lines().empty());
}

TEST_CASE("Making a store and looking up write nothing") {
  Layers at;
  Store store(at.options);
  const ToolchainKey toolchain = sample_toolchain();
  find(store, sample_source());
  find(store, sample_source(), &toolchain);
  store.list();
  store.stat();
  CHECK(at.disk->writing_calls() == 0);
  CHECK(files_below(at.dir.str()).empty());
  CHECK(fs::is_empty(at.dir.path()));
}

TEST_CASE("Nothing is found, and nothing done, for a target that cannot name a folder") {
  Layers at;
  Store store(at.options);
  at.disk->reset_counts();
  CHECK_FALSE(find(store, sample_source("../sm_90")));
  CHECK_FALSE(find(store, sample_source("")));
  CHECK_FALSE(find(store, sample_source("tmp")));
  CHECK(at.disk->calls(Call::kOpenForRead) + at.disk->calls(Call::kList) == 0);
}

TEST_CASE("The entry of another target, source or toolchain is a miss (field report 49)") {
  Layers at;
  Store store(at.options);
  const Entry entry = sample_entry();
  REQUIRE(store.publish(entry));
  CHECK_FALSE(find(store, sample_source("sm_100a"), &entry.toolchain));
  CHECK_FALSE(find(store, sample_source("sm_90"), &entry.toolchain));
  CHECK_FALSE(find(store, sample_source("sm_90a", "b"), &entry.toolchain));
  const ToolchainKey other = sample_toolchain(13, 0, "b");
  CHECK_FALSE(find(store, entry.source, &other));
  const ToolchainKey newer = sample_toolchain(13, 1, "a");
  CHECK_FALSE(find(store, entry.source, &newer));
}

TEST_CASE("Targets are asked in the caller's order before layers") {
  Layers at;
  const SourceKey preferred = sample_source("sm_90a");
  const SourceKey second = sample_source("sm_90");
  at.put(at.root(), sample_entry(second));
  Store with_second(at.options);
  const std::vector<SourceKey> sources = {preferred, second};
  CHECK(with_second.lookup({sources, nullptr, {}})->entry.source.target == "sm_90");

  at.put(at.layer(1), sample_entry(preferred));
  Store with_both(at.options);
  CHECK(with_both.lookup({sources, nullptr, {}})->entry.source.target == "sm_90a");
}

TEST_CASE("Layers are asked in order after the root") {
  Layers at;
  const Entry entry = sample_entry();
  at.put(at.layer(1), entry);
  CHECK(find(*std::make_unique<Store>(at.options), entry.source)->path ==
        entry_path(at.layer(1), entry));
  at.put(at.layer(0), entry);
  CHECK(find(*std::make_unique<Store>(at.options), entry.source)->path ==
        entry_path(at.layer(0), entry));
  at.put(at.root(), entry);
  CHECK(find(*std::make_unique<Store>(at.options), entry.source)->path ==
        entry_path(at.root(), entry));
}

TEST_CASE("A hit in a read-only layer writes nothing") {
  Layers at;
  const Entry entry = sample_entry();
  at.put(at.layer(0), entry);
  Store store(at.options);
  REQUIRE(find(store, entry.source, &entry.toolchain));
  CHECK(at.disk->writing_calls() == 0);
  CHECK_FALSE(fs::exists(at.root()));
}

TEST_CASE("Without a compiler the newest toolchain present is taken, by number") {
  Layers at;
  const SourceKey source = sample_source();
  for (const auto& [major, minor] : {std::pair(9, 9), {12, 3}, {12, 10}, {12, 9}}) {
    at.put(at.root(), sample_entry(source, sample_toolchain(major, minor)));
  }
  Store store(at.options);
  const auto hit = find(store, source);
  REQUIRE(hit);
  CHECK(hit->entry.toolchain.major == 12);
  CHECK(hit->entry.toolchain.minor == 10);
}

TEST_CASE("Toolchains of a later major than the limit are skipped") {
  Layers at;
  const SourceKey source = sample_source();
  at.put(at.root(), sample_entry(source, sample_toolchain(13, 0)));
  at.put(at.root(), sample_entry(source, sample_toolchain(12, 8)));
  Store store(at.options);
  CHECK(find(store, source, nullptr, 13)->entry.toolchain.major == 13);
  CHECK(find(store, source, nullptr, 12)->entry.toolchain.major == 12);
  CHECK_FALSE(find(store, source, nullptr, 11));
}

TEST_CASE("With a compiler the root serves exactly its toolchain") {
  Layers at;
  const SourceKey source = sample_source();
  const ToolchainKey mine = sample_toolchain(12, 8);
  at.put(at.root(), sample_entry(source, sample_toolchain(13, 0)));
  at.make_directories();
  Store store(at.options);
  CHECK_FALSE(find(store, source, &mine));
  at.put(at.root(), sample_entry(source, mine));
  // The limit is about foreign entries: what this compiler made is found again.
  CHECK(find(store, source, &mine, 11)->entry.toolchain.minor == 8);
  CHECK(at.disk->calls(Call::kList) == 2);  // The two layers; the root is not listed for this.
}

TEST_CASE("With a compiler a layer serves any toolchain, its own first, unless told otherwise") {
  Layers at;
  const SourceKey source = sample_source();
  const ToolchainKey mine = sample_toolchain(12, 8);
  at.put(at.layer(0), sample_entry(source, sample_toolchain(13, 0)));
  at.put(at.layer(0), sample_entry(source, sample_toolchain(12, 3)));
  SECTION("any") {
    CHECK(find(*std::make_unique<Store>(at.options), source, &mine)->entry.toolchain.major == 13);
    CHECK(find(*std::make_unique<Store>(at.options), source, &mine, 12)->entry.toolchain.minor ==
          3);
    at.put(at.layer(0), sample_entry(source, mine));
    CHECK(find(*std::make_unique<Store>(at.options), source, &mine)->entry.toolchain.minor == 8);
  }
  SECTION("exact") {
    at.options.layer_match = Match::kExact;
    Store store(at.options);
    CHECK_FALSE(find(store, source, &mine));
    at.put(at.layer(0), sample_entry(source, mine));
    CHECK(find(store, source, &mine)->entry.toolchain.minor == 8);
  }
}

TEST_CASE("A lookup makes at most one successful open") {
  Layers at;
  const SourceKey source = sample_source("sm_90");
  const std::vector<SourceKey> sources = {sample_source("sm_90a"), source};
  for (int minor = 0; minor < 5; ++minor) {
    at.put(at.root(), sample_entry(sample_source("sm_90a", "other"), sample_toolchain(13, minor)));
    at.put(at.layer(0), sample_entry(sample_source("sm_90", "other"), sample_toolchain(13, minor)));
  }
  at.put(at.layer(1), sample_entry(source, sample_toolchain(13, 1)));
  at.put(at.layer(1), sample_entry(source, sample_toolchain(13, 3)));
  Store store(at.options);
  const ToolchainKey mine = sample_toolchain(13, 2);
  for (const ToolchainKey* toolchain : {static_cast<const ToolchainKey*>(nullptr), &mine}) {
    at.disk->reset_counts();
    REQUIRE(store.lookup({sources, toolchain, {}}));
    CHECK(at.disk->successful_opens() == 1);
  }
  at.disk->reset_counts();
  CHECK_FALSE(find(store, sample_source("sm_90", "absent")));
  CHECK(at.disk->successful_opens() == 0);
}

TEST_CASE("Toolchain folders are listed once per store and target") {
  Layers at;
  at.put(at.root(), sample_entry());
  at.make_directories();
  Store store(at.options);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(find(store, sample_source()));
    CHECK_FALSE(find(store, sample_source("sm_90a", "absent")));
    CHECK_FALSE(find(store, sample_source("sm_80")));
  }
  CHECK(at.disk->calls(Call::kList) == 6);  // Two targets in three places.
}

TEST_CASE("A toolchain folder that this store filled is known to it without a new listing") {
  Layers at;
  const Entry entry = sample_entry();
  at.make_directories();
  Store store(at.options);
  CHECK_FALSE(find(store, entry.source));
  REQUIRE(store.publish(entry));
  at.disk->reset_counts();
  CHECK(find(store, entry.source));
  CHECK(at.disk->calls(Call::kList) == 0);
}

TEST_CASE("Modification times mean nothing") {
  Layers at;
  const Entry entry = sample_entry();
  const std::string path = at.put(at.root(), entry);
  Store store(at.options);
  for (const auto shift : {std::chrono::hours(-100000), std::chrono::hours(100000)}) {
    fs::last_write_time(path, fs::file_time_type::clock::now() + shift);
    CHECK(find(store, entry.source, &entry.toolchain));
  }
}

TEST_CASE("A copied cache hits, whatever its new path (field reports 58, 88 and 114)") {
  Layers at;
  const Entry entry = sample_entry();
  {
    Store store(at.options);
    REQUIRE(store.publish(entry));
  }
  const std::string copy = at.dir.str("Kopie mit Leerzeichen und Ümläuten");
  fs::copy(at.root(), copy, fs::copy_options::recursive);
  fs::remove_all(at.root());
  Store store(options_at(copy, at.log));
  CHECK(find(store, entry.source, &entry.toolchain));
}

TEST_CASE("Shifting all times of a cache changes no hit (field report 54)") {
  Layers at;
  const Entry entry = sample_entry();
  {
    Store store(at.options);
    REQUIRE(store.publish(entry));
  }
  const auto shift = GENERATE(std::chrono::seconds(-60), std::chrono::seconds(60),
                              std::chrono::seconds(-31'536'000), std::chrono::seconds(31'536'000));
  CAPTURE(shift.count());
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(at.root())) {
    fs::last_write_time(file.path(), fs::last_write_time(file.path()) + shift);
  }
  Store store(at.options);
  CHECK(find(store, entry.source, &entry.toolchain));
  CHECK(store.counters().misses == 0);
}

TEST_CASE("A renamed entry is not taken for the one whose name it has (field report 48)") {
  Layers at;
  const Entry entry = sample_entry();
  Entry other = entry;
  SECTION("of another source") {
    other = sample_entry(sample_source("sm_90a", "b"));
  }
  SECTION("of another target") {
    // The same material under another target: only the recorded target tells.
    other.source.target = "sm_100a";
  }
  SECTION("of another toolchain") {
    other = sample_entry(sample_source(), sample_toolchain(13, 0, "b"));
  }
  SECTION("of another toolchain version with the same material") {
    other.toolchain.minor = 7;
  }
  write_bytes(entry_path(at.root(), entry), encode_entry(other));
  Store store(at.options);
  CHECK_FALSE(find(store, entry.source, &entry.toolchain));
  CHECK(at.log.lines().size() == 1);
  CHECK(store.counters().rejected == 1);
}

TEST_CASE("Key material is compared, not only its digest") {
  Layers at;
  const Entry entry = sample_entry();
  at.put(at.root(), entry);
  Store store(at.options);
  SECTION("of the source") {
    SourceKey colliding = sample_source("sm_90a", "b");
    colliding.digest = entry.source.digest;
    CHECK_FALSE(find(store, colliding, &entry.toolchain));
  }
  SECTION("of the toolchain") {
    ToolchainKey colliding = sample_toolchain(13, 0, "b");
    colliding.digest = entry.toolchain.digest;
    CHECK_FALSE(find(store, entry.source, &colliding));
  }
  CHECK(store.counters().rejected == 1);
}

TEST_CASE("Links inside a cache are not followed, and nothing beyond them is moved") {
  Layers at;
  const Entry entry = sample_entry();
  const std::string elsewhere = at.put(at.dir.str("elsewhere"), entry);
  const std::string path = entry_path(at.root(), entry);
  const fs::path folder = fs::path(path).parent_path();
  const bool with_compiler = GENERATE(true, false);
  SECTION("an entry") {
    fs::create_directories(folder);
    fs::create_symlink(elsewhere, path);
  }
  SECTION("a toolchain folder") {
    fs::create_directories(folder.parent_path());
    fs::create_directory_symlink(fs::path(elsewhere).parent_path(), folder);
  }
  SECTION("a target folder") {
    fs::create_directories(folder.parent_path().parent_path());
    fs::create_directory_symlink(fs::path(elsewhere).parent_path().parent_path(),
                                 folder.parent_path());
  }
  SECTION("the version folder") {
    fs::create_directories(at.root());
    fs::create_directory_symlink(at.dir.str("elsewhere") + "/v1", at.root() + "/v1");
  }
  Store store(at.options);
  const ToolchainKey* toolchain = with_compiler ? &entry.toolchain : nullptr;
  CHECK_FALSE(find(store, entry.source, toolchain));
  CHECK_FALSE(find(store, entry.source, toolchain));
  CHECK(at.log.lines().size() <= 2);  // About the root, and about what lies in it.
  CHECK(read_bytes(elsewhere) == encode_entry(entry));
}

TEST_CASE("What is not a plain file of sane size is skipped, and publishing replaces what it can") {
  Layers at;
  const Entry entry = sample_entry();
  const std::string path = entry_path(at.root(), entry);
  fs::create_directories(fs::path(path).parent_path());
  SECTION("a pipe") {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  }
  SECTION("a link to nowhere") {
    fs::create_symlink("/nowhere", path);
  }
  SECTION("a huge sparse file") {
    write_bytes(path, "x");
    fs::resize_file(path, kMaxEntryBytes + 1);
  }
  Store store(at.options);
  CHECK_FALSE(find(store, entry.source, &entry.toolchain));
  CHECK_FALSE(find(store, entry.source, &entry.toolchain));
  CHECK(at.log.lines().size() == 1);
  REQUIRE(store.publish(entry));
  CHECK(find(store, entry.source, &entry.toolchain));
}

TEST_CASE("Foreign files in a cache disturb nothing") {
  Layers at;
  const Entry entry = sample_entry();
  at.put(at.root(), entry);
  write_bytes(at.root() + "/v1/README", "x");
  write_bytes(at.root() + "/v1/sm_90a/notes.txt", "x");
  write_bytes(at.root() + "/v1/sm_90a/99.0-short/x", "x");
  write_bytes(at.root() + "/v1/sm_90a/99.0-" + digest("f").hex(), "a file, not a folder");
  Store store(at.options);
  CHECK(find(store, entry.source));
  CHECK(at.log.lines().empty());
}

TEST_CASE("A layer path that cannot be used is left out with a warning") {
  Layers at;
  fs::create_symlink(at.dir.str("loop"), at.dir.str("loop"));
  const Entry entry = sample_entry();
  at.put(at.layer(1), entry);
  at.options.read_only_layers = {at.dir.str("loop"), at.dir.str("absent"), at.layer(1)};
  Store store(at.options);
  CHECK(find(store, entry.source));
  CHECK(at.log.lines().size() == 1);
  CHECK(at.log.text().find("loop") != std::string::npos);
}

}  // namespace kiln::cache
