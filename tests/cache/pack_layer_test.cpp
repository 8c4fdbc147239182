#include "cache/pack_layer.hpp"

#include <filesystem>

#include "cache/store.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/pack_samples.hpp"
#include "tests/support/catch.hpp"

namespace kiln::cache {
namespace {

using namespace test;
namespace fs = std::filesystem;

// An empty root and one pack, seen through a counting disk.
struct Packed {
  Packed() {
    options = options_at(dir.str("root"), log, disk);
    options.read_only_layers = {file.path()};
  }

  std::vector<Entry> entries = sample_entries();
  PackFile file{pack_of(entries)};
  kiln::test::TempDir dir;
  LogLines log;
  std::shared_ptr<FaultyFileSystem> disk = std::make_shared<FaultyFileSystem>();
  StoreOptions options;
};

}  // namespace

TEST_CASE("A store serves the entries of a pack, and writes nothing for it") {
  Packed at;
  Store store(at.options);
  for (const Entry& entry : at.entries) {
    const auto hit = find(store, entry.source, &entry.toolchain);
    REQUIRE(hit);
    CHECK(same(hit->entry, entry));
    CHECK(hit->path.starts_with(at.file.path() + ":" + entry.source.target + "/"));
    CHECK(hit->layer == 1);
  }
  CHECK_FALSE(find(store, sample_source("sm_90a", "unknown")));
  CHECK(at.disk->writing_calls() == 0);
  CHECK(at.disk->successful_opens() == 1);
  CHECK(at.log.lines().empty());
}

TEST_CASE("A pack that no lookup reaches is not opened") {
  Packed at;
  Store store(at.options);
  REQUIRE(store.publish(at.entries[0]));
  at.disk->reset_counts();
  REQUIRE(find(store, at.entries[0].source, &at.entries[0].toolchain));
  CHECK(at.disk->calls(Call::kReadAt) == 0);
}

TEST_CASE("Without a compiler the newest toolchain of a pack is taken") {
  const SourceKey source = sample_source();
  Packed at;
  at.file.write(pack_of({sample_entry(source, sample_toolchain(12, 9)),
                         sample_entry(source, sample_toolchain(13, 1)),
                         sample_entry(source, sample_toolchain(12, 10))}));
  Store store(at.options);
  CHECK(find(store, source)->entry.toolchain.major == 13);
  CHECK(find(store, source, nullptr, 12)->entry.toolchain.minor == 10);
  const ToolchainKey own = sample_toolchain(12, 9);
  CHECK(find(store, source, &own)->entry.toolchain.minor == 9);
}

TEST_CASE("A damaged pack entry costs that entry only, with one warning") {
  Packed at;
  const PackIndex index = (*at.file.open())->index();
  std::string pack = read_bytes(at.file.path());
  const PackEntry& victim = index.entries.back();
  pack[index.blobs[index.pieces[victim.first_piece + victim.pieces - 1]].offset + 3] ^= 1;
  at.file.write(pack);
  Store store(at.options);
  std::size_t hits = 0;
  for (int round = 0; round < 2; ++round) {
    for (const Entry& entry : at.entries) {
      hits += find(store, entry.source, &entry.toolchain) ? 1U : 0U;
    }
  }
  CHECK(hits == 2 * (at.entries.size() - 1));
  CHECK(store.counters().rejected == 1);
  CHECK(at.log.lines().size() == 1);
  CHECK(read_bytes(at.file.path()) == pack);
}

TEST_CASE("A pack that is no use is one warning and misses") {
  Packed at;
  std::string words;
  SECTION("no pack") {
    at.file.write("not a pack");
    words = "truncated, or no pack";
  }
  SECTION("of another version") {
    std::string pack = read_bytes(at.file.path());
    pack[8] = 9;
    at.file.write(pack);
    words = "pack format version is 9";
  }
  SECTION("unsigned where signatures are wanted") {
    const std::string key = at.dir.str("key");
    write_bytes(key, format_public_key(SigningKey::generate().public_key()));
    at.options.trusted_keys = {key};
    words = "not signed";
  }
  SECTION("with keys that cannot be read") {
    at.options.trusted_keys = {at.dir.str("nokey")};
    words = "nokey";
  }
  Store store(at.options);
  for (int round = 0; round < 3; ++round) {
    CHECK_FALSE(find(store, at.entries[0].source));
  }
  CHECK(at.log.lines().size() == 1);
  CHECK(at.log.text().find(at.file.path()) != std::string::npos);
  CHECK(at.log.text().find(words) != std::string::npos);
  CHECK(store.publish(at.entries[0]));
  CHECK(find(store, at.entries[0].source));
}

TEST_CASE("A pack on a disk that recovers is used then") {
  Packed at;
  Store store(at.options);
  at.disk->fail(Call::kReadAt, EIO);
  CHECK_FALSE(find(store, at.entries[0].source));
  at.disk->heal();
  CHECK(find(store, at.entries[0].source));
  at.disk->fail(Call::kReadAt, ESTALE);
  CHECK_FALSE(find(store, at.entries[0].source));
  at.disk->heal();
  CHECK(find(store, at.entries[0].source));
  CHECK(at.log.lines().size() == 1);
}

TEST_CASE("A rejected hit of a pack is not given again") {
  Packed at;
  // Even where the pack lies within the writable root: nothing is moved out of a pack.
  const std::string inside = at.dir.str("root/v1/k.pack");
  write_bytes(inside, read_bytes(at.file.path()));
  at.options.read_only_layers = {inside};
  Store store(at.options);
  const auto hit = find(store, at.entries[0].source);
  REQUIRE(hit);
  store.reject(*hit, "the driver refused it");
  CHECK_FALSE(find(store, at.entries[0].source));
  CHECK(find(store, at.entries[1].source));
  CHECK(fs::exists(inside));
  CHECK(at.log.lines().size() == 1);
}

TEST_CASE("A pack that is replaced by a rename serves its old content to those who have it open") {
  Packed at;
  Store store(at.options);
  REQUIRE(find(store, at.entries[0].source));
  write_bytes(at.dir.str("new"), pack_of({}));
  fs::rename(at.dir.str("new"), at.file.path());
  CHECK(find(store, at.entries[1].source));
  Store later(at.options);
  CHECK_FALSE(find(later, at.entries[1].source));
}

TEST_CASE("Entries of a pack are listed, measured and read like any others") {
  Packed at;
  Store store(at.options);
  const std::vector<ListedEntry> listed = store.list();
  REQUIRE(listed.size() == at.entries.size());
  for (const ListedEntry& entry : listed) {
    CHECK(entry.ok);
    CHECK(entry.layer == at.file.path());
    CHECK(store.read(entry)->source.digest.hex() == entry.source);
  }
  CHECK(store.verify().empty());
  const StoreUsage usage = store.stat();
  CHECK(usage.entries == at.entries.size());
  CHECK(usage.bytes == fs::file_size(at.file.path()));
}

}  // namespace kiln::cache
