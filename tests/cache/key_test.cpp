#include "cache/key.hpp"

#include <map>
#include <random>

#include "tests/support/catch.hpp"

namespace kiln::cache {
namespace {

using Type = KeyField::Type;

std::string write_fields(const std::vector<KeyField>& fields) {
  KeyWriter writer(fields[0].name, static_cast<std::uint32_t>(std::stoul(fields[0].values[0])));
  for (std::size_t i = 1; i < fields.size(); ++i) {
    const KeyField& field = fields[i];
    if (field.type == Type::kText) {
      writer.text(field.name, field.values[0]);
    } else if (field.type == Type::kNumber) {
      writer.number(field.name, std::stoll(field.values[0]));
    } else {
      writer.list(field.name, field.values);
    }
  }
  return std::move(writer).take();
}

// Short strings over bytes that look like the serialisation's own, so that an ambiguity would show.
std::string random_text(std::mt19937& random) {
  static constexpr char kBytes[] = {'t', 'n', 'l', 'k', '\0', '\1', '\2', '\b', 'a'};
  std::string text(random() % 4, ' ');
  for (char& c : text) {
    c = kBytes[random() % sizeof kBytes];
  }
  return text;
}

KeyField random_field(std::mt19937& random) {
  KeyField field;
  field.name = random_text(random);
  switch (random() % 3) {
    case 0:
      field.type = Type::kText;
      field.values = {random_text(random)};
      break;
    case 1:
      field.type = Type::kNumber;
      field.values = {std::to_string(static_cast<std::int64_t>(random() % 5) - 2)};
      break;
    default:
      field.type = Type::kList;
      field.values.resize(random() % 3);
      for (std::string& value : field.values) {
        value = random_text(random);
      }
  }
  return field;
}

std::vector<KeyField> random_fields(std::mt19937& random) {
  std::vector<KeyField> fields = {
      {Type::kKind, random_text(random), {std::to_string(random() % 3)}}};
  const auto count = random() % 4;
  for (std::size_t i = 0; i < count; ++i) {
    fields.push_back(random_field(random));
  }
  return fields;
}

std::string known_material() {
  const std::vector<std::string> options = {"-std=c++20", "", "--no-source-include"};
  return std::move(KeyWriter("kiln.source", 1)
                       .text("target", "sm_90a")
                       .number("count", -2)
                       .list("options", options))
      .take();
}

}  // namespace

TEST_CASE("A digest is XXH3-128 with its high half printed first") {
  // From the reference implementation's own tool (xxhsum -H2) and its Python binding.
  CHECK(digest("").hex() == "99aa06d3014798d86001c324468d497f");
  CHECK(digest("abc").hex() == "06b05ab6733a618578af5f94892f3950");
  CHECK(digest(std::string(1000, 'k')).hex() == "d4f479e6ec6dd1f6308ce2f421066779");
}

TEST_CASE("Key material has exactly these bytes") {
  using namespace std::string_literals;
  const std::string expected =
      "k\x0b\0\0\0kiln.source\x08\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"s
      "t\x06\0\0\0target\x06\0\0\0\0\0\0\0sm_90a"s
      "n\x05\0\0\0"s
      "count\x08\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff"s
      "l\x07\0\0\0options\x3d\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0"s
      "\x0a\0\0\0\0\0\0\0-std=c++20\0\0\0\0\0\0\0\0\x13\0\0\0\0\0\0\0--no-source-include"s;
  CHECK(known_material() == expected);
}

TEST_CASE("Known keys have known digests") {
  const SourceKey source("sm_90a", known_material());
  CHECK(source.digest.hex() == "4447f6e9e9cf7143828d39f0ac112846");
  const ToolchainKey toolchain(
      13, 0, std::move(KeyWriter("kiln.toolchain", 1).text("version", "13.0.88")).take());
  CHECK(toolchain.folder() == "13.0-b09650aef7bfca5511f663f23aa13369");
}

TEST_CASE("Key material reads back as the calls that wrote it") {
  const auto fields = parse_key(known_material());
  REQUIRE(fields);
  const std::vector<KeyField> expected = {
      {Type::kKind, "kiln.source", {"1"}},
      {Type::kText, "target", {"sm_90a"}},
      {Type::kNumber, "count", {"-2"}},
      {Type::kList, "options", {"-std=c++20", "", "--no-source-include"}}};
  CHECK(*fields == expected);
}

TEST_CASE("Different calls never give the same key material (field report 45)") {
  std::mt19937 random(20240601);
  std::map<std::string, std::vector<KeyField>> seen;
  std::size_t repeated = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::vector<KeyField> fields = random_fields(random);
    const std::string material = write_fields(fields);
    const auto read_back = parse_key(material);
    if (!read_back || *read_back != fields) {
      FAIL("material does not read back, number " << i);
    }
    const auto [at, is_new] = seen.emplace(material, fields);
    repeated += is_new ? 0 : 1;
    if (at->second != fields) {
      FAIL("two different sequences share their material, number " << i);
    }
  }
  CHECK(seen.size() > 50000);
  CHECK(repeated > 0);  // Equal calls do give equal material.
}

TEST_CASE("Damaged key material is refused at every truncation and never over-read") {
  const std::string material = known_material();
  std::size_t whole_prefixes = 0;
  for (std::size_t size = 0; size < material.size(); ++size) {
    // A copy of its own, so that a sanitizer sees a read past its end.
    const std::string prefix = material.substr(0, size);
    whole_prefixes += parse_key(prefix) ? 1U : 0U;
  }
  CHECK(whole_prefixes == 3);  // The cuts between two fields.
  CHECK_FALSE(parse_key(material + "t"));
  CHECK_FALSE(parse_key("t" + material));
  CHECK_FALSE(parse_key(material + material));  // A second kind.
}

TEST_CASE("Random damage to key material never crashes the reader (field report 154)") {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string material = known_material();
    for (int flips = 0; flips < 3; ++flips) {
      material[random() % material.size()] = static_cast<char>(random());
    }
    const auto fields = parse_key(material);
    if (fields && write_fields(*fields) != material) {
      FAIL("accepted material that no writer writes, number " << i);
    }
  }
}

TEST_CASE("A digest parses only from what it prints") {
  const Digest value = digest("x");
  CHECK(Digest::parse(value.hex()) == value);
  CHECK_FALSE(Digest::parse(""));
  CHECK_FALSE(Digest::parse(value.hex().substr(1)));
  CHECK_FALSE(Digest::parse(value.hex() + "0"));
  CHECK_FALSE(Digest::parse("99AA06D3014798D86001C324468D497F"));
  CHECK_FALSE(Digest::parse("+9aa06d3014798d86001c324468d497f"));
  CHECK_FALSE(Digest::parse("99aa06d3014798d8 001c324468d497f"));
}

TEST_CASE("A toolchain folder parses only from the name it has") {
  const ToolchainKey key(12, 9, "material");
  const auto folder = ToolchainKey::parse_folder(key.folder());
  REQUIRE(folder);
  CHECK(*folder == key.folder_key());
  const std::string hex = key.digest.hex();
  for (const std::string& wrong :
       {"12.9" + hex, "12-" + hex, "12.-" + hex, ".9-" + hex, "12.09-" + hex, "+12.9-" + hex,
        "-12.9-" + hex, "12.9.1-" + hex, "12.9-" + hex + "0", "99999999999.0-" + hex,
        std::string("12.9-"), std::string(), std::string("tmp")}) {
    INFO(wrong);
    CHECK_FALSE(ToolchainKey::parse_folder(wrong));
  }
}

TEST_CASE("Toolchain folders order by version as numbers") {
  const ToolchainFolder old{9, 10, {}};
  const ToolchainFolder newer{12, 3, {}};
  const ToolchainFolder newest{12, 10, {}};
  CHECK(old < newer);
  CHECK(newer < newest);
}

}  // namespace kiln::cache
