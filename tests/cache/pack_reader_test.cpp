#include "cache/pack_reader.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/pack_samples.hpp"
#include "tests/support/catch.hpp"

namespace kiln::cache {
namespace {

using namespace test;
using Kind = LayerFailure::Kind;

// Which entries need the byte at this offset of the file; every one, outside the blobs.
std::size_t touched_entries(const PackIndex& index, std::size_t offset) {
  std::size_t touched = 0;
  for (const PackEntry& entry : index.entries) {
    for (std::uint32_t i = 0; i < entry.pieces; ++i) {
      const PackBlob& blob = index.blobs[index.pieces[entry.first_piece + i]];
      if (offset >= blob.offset && offset < blob.offset + blob.stored_bytes) {
        ++touched;
        break;
      }
    }
  }
  return touched;
}

std::string with_integer(std::string bytes, std::size_t offset, std::uint32_t value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

// A pack whose index says this, and whose checksums say that it is as it was written.
std::string pack_with_index(const std::string& blobs, const std::string& index) {
  PackTrailer trailer;
  trailer.index_bytes = index.size();
  trailer.index_digest = digest(index);
  std::string bytes = encode_pack_header() + blobs + index + encode_trailer_counts(trailer) +
                      encode_trailer_signature({});
  return bytes + encode_trailer_end(digest(bytes));
}

}  // namespace

TEST_CASE("Any changed byte of a pack costs at most the entries that it belongs to") {
  std::vector<Entry> entries = sample_entries();
  entries[2].image = std::string(32 << 10, 'x');  // One compressed blob.
  const std::string pack = pack_of(entries);
  PackFile file(pack);
  const PackIndex index = (*file.open())->index();
  const std::size_t blobs_end = index.blobs.back().offset + index.blobs.back().stored_bytes;
  std::size_t noticed = 0;
  for (std::size_t at = 0; at < pack.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      CAPTURE(at, change);
      const ChangedByte changed(file.path(), at, pack[at], change);
      const auto reader = file.open();
      const bool in_blobs = at >= kPackHeaderBytes && at < blobs_end;
      if (!reader) {
        REQUIRE_FALSE(in_blobs);
        REQUIRE(reader.error().kind == Kind::kRejected);
        REQUIRE_FALSE(reader.error().reason.empty());
        ++noticed;
        continue;
      }
      const std::size_t touched = touched_entries(index, at);
      // A bit of a zstd frame that means nothing may be lost without loss.
      REQUIRE(whole_entries(**reader, entries) >= entries.size() - touched);
      REQUIRE_FALSE((*reader)->verify_whole());
      ++noticed;
    }
  }
  CHECK(noticed == 3 * pack.size());
  CHECK(read_bytes(file.path()) == pack);
}

TEST_CASE("A pack truncated to any length, or longer than it was, is refused with a reason") {
  const std::string pack = pack_of(sample_entries());
  PackFile file(pack);
  for (std::size_t size = pack.size(); size-- > 0;) {
    CAPTURE(size);
    std::filesystem::resize_file(file.path(), size);
    const auto reader = file.open();
    REQUIRE_FALSE(reader);
    REQUIRE(reader.error().kind == Kind::kRejected);
    REQUIRE_FALSE(reader.error().reason.empty());
  }
  file.write(pack + "x");
  CHECK_FALSE(file.open());
  file.write(pack + pack);
  CHECK_FALSE(file.open());
}

TEST_CASE(
    "A pack of another format version, or with entries of another one, is refused (field reports "
    "100 and 108)") {
  const std::string pack = pack_of(sample_entries());
  PackFile file(with_integer(pack, 8, 2));
  CHECK(file.open().error().reason.find("pack format version is 2") != std::string::npos);
  file.write(with_integer(pack, 12, 7));
  CHECK(file.open().error().reason.find("format version 7") != std::string::npos);
}

TEST_CASE("An index that lies is refused, however well its checksums match") {
  const std::vector<Entry> entries = sample_entries();
  const std::string pack = pack_of(entries);
  PackFile file(pack);
  const PackIndex sound = (*file.open())->index();
  const std::size_t blobs_end = sound.blobs.back().offset + sound.blobs.back().stored_bytes;
  const std::string blobs = pack.substr(kPackHeaderBytes, blobs_end - kPackHeaderBytes);
  const std::string index = encode_pack_index(sound);
  REQUIRE(pack_with_index(blobs, index) == pack);
  SECTION("any byte changed") {
    for (std::size_t at = 0; at < index.size(); ++at) {
      for (const int change : {0x01, 0x80, 0xff}) {
        CAPTURE(at, change);
        std::string lying = index;
        lying[at] = static_cast<char>(lying[at] ^ change);
        file.write(pack_with_index(blobs, lying));
        const auto reader = file.open();
        if (reader) {
          whole_entries(**reader, entries);  // Never a wrong one.
        }
      }
    }
  }
  SECTION("cut to any length") {
    for (std::size_t size = 0; size < index.size(); ++size) {
      CAPTURE(size);
      file.write(pack_with_index(blobs, index.substr(0, size)));
      REQUIRE_FALSE(file.open());
    }
  }
  SECTION("entries out of order") {
    PackIndex lying = sound;
    std::swap(lying.entries[1].address.source, lying.entries[2].address.source);
    file.write(pack_with_index(blobs, encode_pack_index(lying)));
    CHECK(file.open().error().reason.find("out of order") != std::string::npos);
  }
  SECTION("an entry twice") {
    PackIndex lying = sound;
    lying.entries[2].address = lying.entries[1].address;
    file.write(pack_with_index(blobs, encode_pack_index(lying)));
    CHECK_FALSE(file.open());
  }
  SECTION("a target that is a path") {
    PackIndex lying = sound;
    for (PackEntry& entry : lying.entries) {
      entry.address.target = "../..";
    }
    file.write(pack_with_index(blobs, encode_pack_index(lying)));
    CHECK_FALSE(file.open());
  }
}

TEST_CASE("An entry under another one's name is not given for it") {
  const std::vector<Entry> entries = sample_entries();
  const std::string pack = pack_of(entries);
  PackFile file(pack);
  PackIndex index = (*file.open())->index();
  const std::size_t blobs_end = index.blobs.back().offset + index.blobs.back().stored_bytes;
  std::swap(index.pieces.front(), index.pieces.back());
  const std::string blobs = pack.substr(kPackHeaderBytes, blobs_end - kPackHeaderBytes);
  file.write(pack_with_index(blobs, encode_pack_index(index)));
  const auto reader = file.open();
  REQUIRE(reader);
  CHECK(whole_entries(**reader, entries) < entries.size());
}

TEST_CASE("A pack that becomes shorter while it is open costs the entries that are gone") {
  const std::vector<Entry> entries = sample_entries();
  PackFile file(pack_of(entries));
  const auto reader = file.open();
  REQUIRE(reader);
  std::filesystem::resize_file(file.path(), 0);
  CHECK(whole_entries(**reader, entries) == 0);
  const auto read = (*reader)->read((*reader)->index().entries.front());
  CHECK(read.error().kind == Kind::kRejected);
  CHECK(read.error().reason.find("shorter") != std::string::npos);
}

TEST_CASE("A failing disk is told from a bad pack") {
  const PackFile file(pack_of(sample_entries()));
  FaultyFileSystem disk;
  const Call call = GENERATE(Call::kOpenForRead, Call::kHandleStatus, Call::kReadAt);
  const int error = GENERATE(EIO, ESTALE, EMFILE, EACCES);
  const PackTrust trust = trusting();
  disk.fail(call, error);
  const auto reader = PackReader::open(disk, file.path(), &trust);
  REQUIRE_FALSE(reader);
  CHECK(reader.error().kind == Kind::kUnreadable);
  CHECK(reader.error().reason == errno_text(error));
  disk.heal();
  const auto healed = PackReader::open(disk, file.path(), &trust);
  REQUIRE(healed);
  disk.fail(Call::kReadAt, error);
  const auto read = (*healed)->read((*healed)->index().entries.front());
  REQUIRE_FALSE(read);
  CHECK(read.error().kind == Kind::kUnreadable);
}

TEST_CASE("Entries that share an image have it read, inflated and held once") {
  std::vector<Entry> entries = sample_entries();
  entries[0].image = std::string(32 << 10, 'x');
  entries[1].image = entries[0].image;
  entries[2].image = std::string(32 << 10, 'y');
  const PackFile file(pack_of(entries));
  FaultyFileSystem disk;
  const PackTrust trust = trusting();
  const auto reader = PackReader::open(disk, file.path(), &trust);
  REQUIRE(reader);
  const auto reads_of = [&](const Entry& entry) {
    const auto before = disk.calls(Call::kReadAt);
    REQUIRE(whole_entries(**reader, {entry}) == 1);
    return disk.calls(Call::kReadAt) - before;
  };
  const auto alone = reads_of(entries[2]);
  CHECK(reads_of(entries[0]) == alone);
  CHECK(reads_of(entries[1]) == alone - 1);
  CHECK(reads_of(entries[0]) == alone - 1);
  const auto image_of = [&](const Entry& entry) {
    return decode_entry(*(*reader)->read(*(*reader)->find(address_of(entry))))->image;
  };
  CHECK(image_of(entries[0]).data() == image_of(entries[1]).data());
}

TEST_CASE("A pack is judged by its owner and mode") {
  PackFile file(pack_of(sample_entries()));
  REQUIRE(chmod(file.path().c_str(), 0666) == 0);
  const auto reader = file.open();
  REQUIRE_FALSE(reader);
  CHECK(reader.error().kind == Kind::kRejected);
  CHECK(reader.error().reason.find("everybody can write it") != std::string::npos);
  CHECK(PackReader::open(file.disk, file.path(), nullptr));
  REQUIRE(chmod(file.path().c_str(), 0664) == 0);
  CHECK(file.open());
  PackTrust other = trusting();
  other.policy.uid += 1;
  CHECK(file.open(other).has_value() == (geteuid() == 0));
}

TEST_CASE("What is not a plain file is no pack") {
  PackFile file("x");
  std::filesystem::remove(file.path());
  REQUIRE(mkfifo(file.path().c_str(), 0600) == 0);
  const auto reader = file.open();
  REQUIRE_FALSE(reader);
  CHECK(reader.error().kind == Kind::kRejected);
}

}  // namespace kiln::cache
