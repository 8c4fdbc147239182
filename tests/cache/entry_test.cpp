#include "cache/entry.hpp"

#include <cstring>
#include <random>

#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {
namespace {

using namespace test;

// Replaces the checksum, for damage that a checksum alone would not show.
std::string with_checksum(std::string bytes) {
  bytes.resize(bytes.size() - 16);
  const Digest checksum = digest(bytes);
  char raw[16];
  std::memcpy(raw, &checksum.low, 8);
  std::memcpy(raw + 8, &checksum.high, 8);
  return bytes.append(raw, sizeof raw);
}

// An entry's file around any metadata.
std::string with_metadata(const std::string& metadata) {
  const std::string image = "image";
  std::string bytes = image + metadata + "KilnEnt\n";
  const std::uint32_t words[] = {1, 0};
  const std::uint64_t sizes[] = {image.size(), metadata.size(), 0, 0};
  char raw[40];
  std::memcpy(raw, words, 8);
  std::memcpy(raw + 8, sizes, 32);
  return with_checksum(bytes.append(raw, sizeof raw));
}

KeyWriter complete_metadata(std::int64_t registers, std::int64_t pdl_wait) {
  KeyWriter writer("kiln.entry", 1);
  writer.text("target", "sm_90").text("source", "s").number("major", 13).number("minor", 0);
  writer.text("toolchain", "t").text("symbol", "f").text("label", "l");
  writer.number("registers", registers).number("shared_bytes", 0).number("stack_bytes", 0);
  writer.number("spill_store_bytes", 0).number("spill_load_bytes", 0).number("pdl_wait", pdl_wait);
  return writer;
}

}  // namespace

TEST_CASE("An entry reads back as it was written") {
  const Entry entry = sample_entry();
  const auto decoded = decode_entry(encode_entry(entry));
  REQUIRE(decoded);
  CHECK(same(*decoded, entry));
}

TEST_CASE("An entry of an image of several kernels lists them, its own among them") {
  Entry entry = sample_entry();
  const std::string alone = encode_entry(entry);
  entry.members = {Digest{1, 2}.hex(), entry.source.digest.hex()};
  const auto decoded = decode_entry(encode_entry(entry));
  REQUIRE(decoded);
  CHECK(decoded->members == entry.members);
  CHECK(decode_entry(alone)->members.empty());

  entry.members.pop_back();
  const auto stray = decode_entry(encode_entry(entry));
  REQUIRE_FALSE(stray);
  CHECK(stray.error().message.find("does not list") != std::string::npos);
}

TEST_CASE("An entry's file starts with its image") {
  const Entry entry = sample_entry();
  CHECK(encode_entry(entry).starts_with(entry.image.bytes()));
}

TEST_CASE("An entry has a known file digest") {
  // A change here is a change of the on-disk format and needs a new version folder.
  CHECK(digest(encode_entry(sample_entry())).hex() == "2fd52a98bfdb293f33dd724b9dc6fae6");
}

TEST_CASE("Equal entries give equal bytes") {
  CHECK(encode_entry(sample_entry()) == encode_entry(sample_entry()));
}

TEST_CASE("A file that comes in two parts is read as if it came in one, wherever it was cut") {
  const Entry entry = sample_entry();
  const std::string bytes = encode_entry(entry);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const Image head = bytes.substr(0, cut);
    const auto decoded = decode_entry({head, bytes.substr(cut)});
    REQUIRE(decoded);
    REQUIRE(same(*decoded, entry));
    REQUIRE((decoded->image.data() == head.data()) == (cut == entry.image.size()));
  }
}

TEST_CASE("An image that entries share is checked with each of them") {
  const Entry entry = sample_entry();
  const std::string rest = encode_entry(entry).substr(entry.image.size());
  CHECK(decode_entry({entry.image, rest}));
  CHECK_FALSE(decode_entry({forged_image(entry.image), rest}));
  CHECK_FALSE(decode_entry({std::string(entry.image.bytes()) + "x", rest}));
  CHECK_FALSE(decode_entry({std::string(entry.image.bytes().substr(1)), rest}));
  for (std::size_t i = 0; i < rest.size(); ++i) {
    std::string damaged = rest;
    damaged[i] ^= 1;
    REQUIRE_FALSE(decode_entry({entry.image, damaged}));
    REQUIRE_FALSE(decode_entry({entry.image, rest.substr(0, i)}));
  }
}

TEST_CASE("Decoding hands the buffer over without copying the image") {
  std::string bytes = encode_entry(sample_entry(sample_source(), sample_toolchain(), 10000));
  const char* const place = bytes.data();
  const auto decoded = decode_entry(std::move(bytes));
  REQUIRE(decoded);
  CHECK(decoded->image.data() == place);
}

TEST_CASE("An entry truncated to any length is rejected with a reason") {
  const std::string bytes = encode_entry(sample_entry());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = decode_entry(bytes.substr(0, size));
    if (decoded || decoded.error().message.empty()) {
      FAIL("accepted when truncated to " << size);
    }
  }
}

TEST_CASE("An entry with any byte changed or added is rejected with a reason") {
  const std::string bytes = encode_entry(sample_entry());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      const auto decoded = decode_entry(damaged);
      if (decoded || decoded.error().message.empty()) {
        FAIL("accepted with byte " << at << " changed by " << change);
      }
    }
  }
  CHECK_FALSE(decode_entry(bytes + '\0'));
  CHECK_FALSE(decode_entry('\0' + bytes));
}

TEST_CASE("Lengths in the footer are checked even under a valid checksum") {
  const std::string bytes = encode_entry(sample_entry());
  const std::size_t image_length_at = bytes.size() - 32;
  const std::size_t metadata_length_at = bytes.size() - 24;
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0},
                                    std::uint64_t{1} << 63, std::uint64_t{bytes.size()}}) {
    for (const std::size_t at : {image_length_at, metadata_length_at}) {
      std::string damaged = bytes;
      std::memcpy(damaged.data() + at, &value, sizeof value);
      CHECK_FALSE(decode_entry(with_checksum(damaged)));
    }
  }
}

TEST_CASE("Another format version is rejected and named") {
  std::string bytes = encode_entry(sample_entry());
  bytes[bytes.size() - 40] = 2;
  const auto decoded = decode_entry(with_checksum(bytes));
  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().message.find("version is 2") != std::string::npos);
}

TEST_CASE("Metadata must be exactly the fields of the format") {
  const auto accepts = [](KeyWriter writer) {
    return decode_entry(with_metadata(std::move(writer).take())).has_value();
  };
  CHECK(accepts(complete_metadata(40, 1)));
  CHECK_FALSE(accepts(complete_metadata(40, 2)));
  CHECK_FALSE(accepts(complete_metadata(-1, 1)));
  CHECK_FALSE(accepts(complete_metadata(std::int64_t{1} << 40, 1)));
  CHECK_FALSE(accepts(complete_metadata(40, 1).number("more", 1)));
  CHECK_FALSE(accepts(complete_metadata(40, 1).list("members", {})));
  CHECK_FALSE(accepts(complete_metadata(40, 1).list("more", std::vector<std::string>{"x"})));
  CHECK_FALSE(accepts(KeyWriter("kiln.entry", 1)));
  CHECK_FALSE(accepts(KeyWriter("kiln.entry", 1).text("source", "s")));
  CHECK_FALSE(accepts(KeyWriter("kiln.entry", 1).number("target", 1)));
  CHECK_FALSE(decode_entry(with_metadata("")));
  CHECK_FALSE(decode_entry(with_metadata("noise")));

  std::string other_kind = std::move(complete_metadata(40, 1)).take();
  other_kind.replace(5, 4, "Kiln");
  CHECK_FALSE(decode_entry(with_metadata(other_kind)));
}

TEST_CASE("Random metadata under a valid checksum never crashes the reader (field report 154)") {
  std::mt19937 random(11);
  const std::string metadata = std::move(complete_metadata(40, 1)).take();
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = metadata;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    damaged.resize(random() % 4 == 0 ? random() % damaged.size() : damaged.size());
    accepted += decode_entry(with_metadata(damaged)) ? 1 : 0;
  }
  CHECK(accepted < 20000);
}

TEST_CASE("ELF tools read an entry as it is") {
  if (std::system("command -v readelf >/dev/null 2>&1") != 0) {
    WARN("skipped: there is no readelf on this machine");
    return;
  }
  const kiln::test::TempDir dir;
  Entry entry = sample_entry();
  entry.image = read_bytes("/bin/true");
  REQUIRE(
      entry.image.bytes().starts_with("\x7f"
                                      "ELF"));
  write_bytes(dir.str("plain"), std::string(entry.image.bytes()));
  write_bytes(dir.str("entry"), encode_entry(entry));
  const auto readelf = [&](const std::string& name) {
    const std::string command =
        "cd " + dir.str() + " && cp " + name + " x && readelf -hSsW x > " + name + ".txt 2>&1";
    CHECK(std::system(command.c_str()) == 0);
    return read_bytes(dir.str(name + ".txt"));
  };
  CHECK(readelf("entry") == readelf("plain"));
}

}  // namespace kiln::cache
