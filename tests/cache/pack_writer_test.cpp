#include "cache/pack_writer.hpp"

#include <algorithm>
#include <random>

#include "cache/pack_pieces.hpp"
#include "tests/cache/pack_samples.hpp"
#include "tests/support/catch.hpp"

namespace kiln::cache {
namespace {

using namespace test;

std::string noise(std::size_t size, unsigned seed) {
  std::mt19937 generator(seed);
  std::string bytes(size, '\0');
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(generator()); });
  return bytes;
}

PackIndex index_of(const std::string& pack) {
  PackFile file(pack);
  const auto reader = file.open();
  REQUIRE(reader);
  return (*reader)->index();
}

}  // namespace

TEST_CASE("Equal entries give equal packs, in whatever order they are found") {
  std::vector<Entry> entries = sample_entries();
  const std::string pack = pack_of(entries);
  std::mt19937 generator(1);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(entries.begin(), entries.end(), generator);
    REQUIRE(pack_of(entries) == pack);
  }
  entries.push_back(entries.front());
  CHECK(pack_of(entries) == pack);
}

TEST_CASE("A pack has a known digest") {
  // A change here is a change of the on-disk format and needs a new pack format version.
  CHECK(digest(pack_of(sample_entries())).hex() == "171a8a3c386eb4a492f02975834df9af");
}

TEST_CASE("A pack gives back each entry's file, byte for byte") {
  const std::vector<Entry> entries = sample_entries();
  PackFile file(pack_of(entries));
  const auto reader = file.open();
  REQUIRE(reader);
  REQUIRE((*reader)->index().entries.size() == entries.size());
  for (const Entry& entry : entries) {
    const PackEntry* found = (*reader)->find(address_of(entry));
    REQUIRE(found != nullptr);
    auto read = (*reader)->read(*found);
    REQUIRE(read);
    CHECK(std::move(*read).joined() == encode_entry(entry));
  }
  CHECK((*reader)->verify_whole());
}

TEST_CASE("A pack of nothing is a pack") {
  PackFile file(pack_of({}));
  const auto reader = file.open();
  REQUIRE(reader);
  CHECK((*reader)->index().entries.empty());
  CHECK((*reader)->verify_whole());
}

TEST_CASE("Equal images are stored once") {
  Entry first = sample_entry(sample_source("sm_90a", "a"));
  Entry second = sample_entry(sample_source("sm_90a", "b"));
  first.image = second.image = noise(20000, 1);
  const PackIndex index = index_of(pack_of({first, second}));
  CHECK(index.blobs.size() == 3);
  CHECK(pack_of({first, second}).size() < 22000);
  second.image = noise(20000, 2);
  CHECK(index_of(pack_of({first, second})).blobs.size() == 4);
}

TEST_CASE("A long text that entries share is stored once") {
  const std::string text = noise(20000, 1);
  Entry first = sample_entry(source_with_text("a", text));
  Entry second = sample_entry(source_with_text("b", text));
  second.image = noise(300, 2);
  const std::string pack = pack_of({first, second});
  CHECK(pack.size() < 23000);
  PackFile file(pack);
  const auto reader = file.open();
  REQUIRE(reader);
  CHECK(whole_entries(**reader, {first, second}) == 2);
}

TEST_CASE("A blob is compressed only where that pays") {
  const auto compresses = [](std::string image) {
    Entry entry = sample_entry();
    entry.image = std::move(image);
    const PackIndex index = index_of(pack_of({entry}));
    PackFile file(pack_of({entry}));
    const auto reader = file.open();
    REQUIRE(whole_entries(**reader, {entry}) == 1);
    return index.blobs.front().compressed();
  };
  CHECK(compresses(std::string(32 << 10, 'x')));
  CHECK_FALSE(compresses(std::string((32 << 10) - 1, 'x')));
  CHECK_FALSE(compresses(noise(100000, 1)));
  CHECK(compresses(noise(70000, 1) + std::string(30000, 'x')));
  CHECK_FALSE(compresses(noise(80000, 1) + std::string(20000, 'x')));
}

TEST_CASE("What is not a sound entry of its address does not go into a pack") {
  const Entry entry = sample_entry();
  const auto built = [&](const std::string& bytes) {
    return build_pack({address_of(entry)}, [&](const EntryAddress&) { return bytes; });
  };
  REQUIRE(built(encode_entry(entry)));
  std::string damaged = encode_entry(entry);
  damaged[10] ^= 1;
  const auto refused = built(damaged);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find(entry.source.digest.hex()) != std::string::npos);
  CHECK(refused.error().message.find("checksum") != std::string::npos);
  CHECK_FALSE(built(encode_entry(sample_entry(sample_source("sm_90a", "other")))));
  CHECK_FALSE(built(""));
}

TEST_CASE("The pieces of an entry are its file, cut around the long values of its keys") {
  const std::string text = noise(kLeastPieceBytes, 1);
  const std::string file = encode_entry(sample_entry(source_with_text("a", text)));
  const auto pieces = cut_entry(file);
  REQUIRE(pieces);
  std::string joined;
  for (const std::string_view piece : *pieces) {
    joined += piece;
  }
  CHECK(joined == file);
  CHECK(pieces->size() == 4);
  CHECK((*pieces)[0] == sample_entry().image.bytes());
  CHECK((*pieces)[2] == text);
  const std::string short_text =
      encode_entry(sample_entry(source_with_text("a", noise(kLeastPieceBytes - 1, 1))));
  CHECK(cut_entry(short_text)->size() == 2);
}

}  // namespace kiln::cache
