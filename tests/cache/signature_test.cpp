#include "cache/signature.hpp"

#include <filesystem>

#include "tests/cache/pack_samples.hpp"
#include "tests/support/catch.hpp"

namespace kiln::cache {
namespace {

using namespace test;
using Kind = LayerFailure::Kind;

bool mentions(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TrustedKeys trusted(FileSystem& disk, const std::vector<std::string>& paths) {
  return read_trusted_keys(disk, paths, TrustPolicy::of_process());
}

}  // namespace

TEST_CASE("BLAKE2b-256 is the published one") {
  std::string hex;
  for (const std::uint8_t byte : blake2b("abc")) {
    const char* digits = "0123456789abcdef";
    hex += {digits[byte >> 4], digits[byte & 15]};
  }
  CHECK(hex == "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST_CASE("Keys read back as they were written") {
  const SigningKey key = SigningKey::generate();
  const auto read = SigningKey::parse(key.format() + "\n");
  REQUIRE(read);
  CHECK(read->public_key() == key.public_key());
  CHECK(*parse_public_key(format_public_key(key.public_key()) + "\n") == key.public_key());
  CHECK(SigningKey::generate().public_key() != key.public_key());
}

TEST_CASE("What is not a key file is refused") {
  const SigningKey key = SigningKey::generate();
  const std::string secret = key.format();
  const std::string open = format_public_key(key.public_key());
  for (const std::string& text :
       {std::string(), open.substr(0, open.size() - 1), open + "A", open + "\n" + open + "\n",
        " " + open, secret, std::string("kiln-ed25519-public:"), std::string("ssh-ed25519 AAAA")}) {
    CAPTURE(text);
    CHECK_FALSE(parse_public_key(text));
  }
  CHECK_FALSE(SigningKey::parse(open));
  CHECK_FALSE(SigningKey::parse(secret.substr(0, secret.size() - 4)));
  // The public half belongs to another key.
  std::string mixed = secret;
  mixed.replace(80, 10, SigningKey::generate().format().substr(80, 10));
  CHECK_FALSE(SigningKey::parse(mixed));
  CHECK(mentions(parse_public_key(secret).error().message, "secret"));
}

TEST_CASE("A signature holds for its message and its key alone") {
  const SigningKey key = SigningKey::generate();
  const Signature signature = key.sign("message");
  CHECK(is_signed_by(key.public_key(), signature, "message"));
  CHECK_FALSE(is_signed_by(key.public_key(), signature, "massage"));
  CHECK_FALSE(is_signed_by(SigningKey::generate().public_key(), signature, "message"));
  Signature other = signature;
  other[40] ^= 1;
  CHECK_FALSE(is_signed_by(key.public_key(), other, "message"));
}

TEST_CASE("A pack signed by a trusted key is used, whoever can write the file") {
  const std::vector<Entry> entries = sample_entries();
  const SigningKey key = SigningKey::generate();
  PackFile file(pack_of(entries, &key));
  const auto reader = file.open(trusting(key.public_key()));
  REQUIRE(reader);
  CHECK(whole_entries(**reader, entries) == entries.size());
  CHECK((*reader)->verify_whole());
  std::filesystem::permissions(file.path(), std::filesystem::perms::all);
  CHECK(file.open(trusting(key.public_key())));
  CHECK_FALSE(file.open());
}

TEST_CASE("Without trusted keys a signed pack is as good as an unsigned one") {
  const std::vector<Entry> entries = sample_entries();
  const SigningKey key = SigningKey::generate();
  PackFile file(pack_of(entries, &key));
  const auto reader = file.open();
  REQUIRE(reader);
  CHECK((*reader)->signature().present);
  CHECK(whole_entries(**reader, entries) == entries.size());
}

TEST_CASE(
    "An unsigned pack, or one signed by another key, is refused with the reason (field report "
    "108)") {
  const SigningKey key = SigningKey::generate();
  const SigningKey other = SigningKey::generate();
  PackFile file(pack_of(sample_entries()));
  const auto unsigned_pack = file.open(trusting(key.public_key()));
  REQUIRE_FALSE(unsigned_pack);
  CHECK(unsigned_pack.error().kind == Kind::kRejected);
  CHECK(mentions(unsigned_pack.error().reason, "not signed"));
  file.write(pack_of(sample_entries(), &other));
  const auto foreign = file.open(trusting(key.public_key()));
  REQUIRE_FALSE(foreign);
  CHECK(mentions(foreign.error().reason, format_public_key(other.public_key())));
}

TEST_CASE("A signed pack with any byte altered is refused whole") {
  const SigningKey key = SigningKey::generate();
  const std::vector<Entry> entries = sample_entries();
  const std::string pack = pack_of(entries, &key);
  PackFile file(pack);
  // The whole's checksum guards against accidents; it and the reserved word are not signed.
  const std::size_t checked = pack.size() - kPackTrailerBytes + 24 + 104;
  for (std::size_t at = 0; at < pack.size() - 8; ++at) {
    CAPTURE(at);
    const ChangedByte changed(file.path(), at, pack[at], 1);
    const auto reader = file.open(trusting(key.public_key()));
    REQUIRE(reader.has_value() == (at >= checked));
    if (!reader) {
      REQUIRE(reader.error().kind == Kind::kRejected);
      REQUIRE_FALSE(reader.error().reason.empty());
    }
  }
}

TEST_CASE("An altered entry with a new checksum of its own passes only where nothing is signed") {
  // What a forger would do: change an image and mend every checksum.
  const SigningKey key = SigningKey::generate();
  std::vector<Entry> entries = sample_entries();
  const std::string pack = pack_of(entries, &key);
  std::vector<Entry> forged_entries = entries;
  forged_entries[3].image = forged_image(entries[3].image);
  const std::string forged = pack_of(forged_entries);
  REQUIRE(forged.size() == pack.size());
  const std::size_t signature = pack.size() - kPackTrailerBytes + 24;
  std::string claiming = forged.substr(0, signature) + pack.substr(signature, 104);
  claiming += encode_trailer_end(digest(claiming));
  PackFile file(claiming);
  CHECK(file.open());
  const auto reader = file.open(trusting(key.public_key()));
  REQUIRE_FALSE(reader);
  CHECK(mentions(reader.error().reason, "altered"));
}

TEST_CASE("A signed pack that is altered after it was opened gives none of the altered bytes") {
  const SigningKey key = SigningKey::generate();
  const std::vector<Entry> entries = sample_entries();
  PackFile file(pack_of(entries, &key));
  const auto reader = file.open(trusting(key.public_key()));
  REQUIRE(reader);
  std::vector<Entry> forged = entries;
  forged[3].image = forged_image(entries[3].image);
  // In place: the open file sees it.
  write_bytes(file.path(), pack_of(forged, &key));
  CHECK(whole_entries(**reader, entries) == entries.size() - 1);
}

TEST_CASE("A key file that everybody can write is not trusted") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk;
  write_bytes(dir.str("key"), format_public_key(SigningKey::generate().public_key()) + "\n");
  CHECK(trusted(disk, {dir.str("key")}).problem.empty());
  std::filesystem::permissions(dir.str("key"), std::filesystem::perms(0666));
  const TrustedKeys open = trusted(disk, {dir.str("key")});
  CHECK(open.required);
  CHECK(open.keys.empty());
  CHECK(mentions(open.problem, "is not trusted"));
}

TEST_CASE("Trusted keys that cannot be read are never left out in silence") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk;
  const SigningKey key = SigningKey::generate();
  write_bytes(dir.str("good"), format_public_key(key.public_key()) + "\n");
  write_bytes(dir.str("bad"), "not a key");
  CHECK_FALSE(trusted(disk, {}).required);
  const TrustedKeys good = trusted(disk, {dir.str("good")});
  CHECK(good.required);
  CHECK(good.keys == std::vector<PublicKey>{key.public_key()});
  CHECK(good.problem.empty());
  const std::string wrong = GENERATE("bad", "absent");
  const TrustedKeys bad = trusted(disk, {dir.str("good"), dir.str(wrong)});
  CHECK(bad.required);
  CHECK(mentions(bad.problem, dir.str(wrong)));
  CHECK(mentions(trusted(disk, {"relative"}).problem, "absolute"));
  PackFile file(pack_of(sample_entries(), &key));
  const auto refused = file.open({TrustPolicy::of_process(), bad});
  REQUIRE_FALSE(refused);
  CHECK(mentions(refused.error().reason, dir.str(wrong)));
}

}  // namespace kiln::cache
