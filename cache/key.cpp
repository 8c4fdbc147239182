#include "cache/key.hpp"

#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "cache/bytes.hpp"

namespace kiln::cache {
namespace {

constexpr std::size_t kHexDigits = 32;

std::optional<std::uint64_t> parse_hex64(std::string_view text) {
  if (text.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// Decimal without sign or leading zeros, so that a version has one spelling.
std::optional<int> parse_version_part(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || std::to_string(value) != text ||
      value < 0) {
    return std::nullopt;
  }
  return value;
}

tl::unexpected<Failure> damaged(std::string_view what) {
  return fail(ErrorCode::kIo, fmt::format("key material is damaged: {}", what));
}

// Calls `visit` with each item, and before them with nothing but their count.
template <class Reserve, class Visit>
Status read_list(std::string_view value, const Reserve& reserve, const Visit& visit) {
  ByteReader reader(value);
  const auto count = reader.integer<std::uint64_t>();
  // Each item takes at least its length, which bounds what a wrong count can make us reserve.
  if (!count || *count > reader.remaining() / sizeof(std::uint64_t)) {
    return damaged("a list's count exceeds its bytes");
  }
  reserve(static_cast<std::size_t>(*count));
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto size = reader.integer<std::uint64_t>();
    const auto item = size ? reader.bytes(*size) : std::nullopt;
    if (!item) {
      return damaged("a list item ends past its list");
    }
    visit(*item);
  }
  return reader.empty() ? Status() : damaged("a list has bytes after its last item");
}

Status check_value(const KeyFieldView& field) {
  switch (field.type) {
    case KeyField::Type::kText:
      return {};
    case KeyField::Type::kList:
      return read_list(
          field.value, [](std::size_t) {}, [](std::string_view) {});
    case KeyField::Type::kKind:
    case KeyField::Type::kNumber:
      if (field.value.size() != sizeof(std::int64_t)) {
        return damaged("a number is not 8 bytes long");
      }
      if (field.type == KeyField::Type::kKind && !std::in_range<std::uint32_t>(field.number())) {
        return damaged("a schema version is out of range");
      }
      return {};
  }
  return damaged("unknown field type");
}

Result<KeyFieldView> split_field(ByteReader& reader) {
  KeyFieldView field;
  const auto type = reader.integer<char>();
  const auto name_size = reader.integer<std::uint32_t>();
  const auto name = name_size ? reader.bytes(*name_size) : std::nullopt;
  const auto value_size = name ? reader.integer<std::uint64_t>() : std::nullopt;
  const auto value = value_size ? reader.bytes(*value_size) : std::nullopt;
  if (!value) {
    return damaged("a field ends past the end");
  }
  field.type = static_cast<KeyField::Type>(*type);
  field.name = *name;
  field.value = *value;
  if (Status sound = check_value(field); !sound) {
    return tl::unexpected(std::move(sound.error()));
  }
  return field;
}

std::vector<std::string> values_of(const KeyFieldView& field) {
  switch (field.type) {
    case KeyField::Type::kText:
      return {std::string(field.value)};
    case KeyField::Type::kList:
      return field.list();
    case KeyField::Type::kKind:
    case KeyField::Type::kNumber:
      break;
  }
  return {std::to_string(field.number())};
}

}  // namespace

std::string Digest::hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(kHexDigits, '0');  // Every lookup prints some; a format string costs more.
  for (std::size_t i = 0; i < kHexDigits / 2; ++i) {
    text[kHexDigits / 2 - 1 - i] = kDigits[(high >> (4 * i)) & 15];
    text[kHexDigits - 1 - i] = kDigits[(low >> (4 * i)) & 15];
  }
  return text;
}

Result<Digest> Digest::parse(std::string_view hex32) {
  if (hex32.size() == kHexDigits) {
    const auto high = parse_hex64(hex32.substr(0, kHexDigits / 2));
    const auto low = parse_hex64(hex32.substr(kHexDigits / 2));
    if (high && low) {
      return Digest{*high, *low};
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is not a digest: expected 32 lower-case hex digits", hex32));
}

Digest digest(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

KeyWriter::KeyWriter(std::string_view kind, std::uint32_t schema_version) {
  begin_field('k', kind, sizeof(std::uint64_t));
  append_integer(material_, std::uint64_t{schema_version});
}

void KeyWriter::begin_field(char type, std::string_view name, std::uint64_t value_bytes) {
  material_.push_back(type);
  append_integer(material_, static_cast<std::uint32_t>(name.size()));
  material_.append(name);
  append_integer(material_, value_bytes);
}

KeyWriter& KeyWriter::reserve(std::size_t bytes) {
  material_.reserve(bytes);
  return *this;
}

KeyWriter& KeyWriter::text(std::string_view name, std::string_view value) {
  begin_field('t', name, value.size());
  material_.append(value);
  return *this;
}

KeyWriter& KeyWriter::number(std::string_view name, std::int64_t value) {
  begin_field('n', name, sizeof value);
  append_integer(material_, value);
  return *this;
}

KeyWriter& KeyWriter::list(std::string_view name, std::span<const std::string> values) {
  std::uint64_t size = sizeof(std::uint64_t);
  for (const std::string& value : values) {
    size += sizeof(std::uint64_t) + value.size();
  }
  begin_field('l', name, size);
  append_integer(material_, std::uint64_t{values.size()});
  for (const std::string& value : values) {
    append_integer(material_, std::uint64_t{value.size()});
    material_.append(value);
  }
  return *this;
}

std::string KeyWriter::take() && {
  return std::move(material_);
}

std::int64_t KeyFieldView::number() const {
  return ByteReader(value).integer<std::int64_t>().value_or(0);
}

std::vector<std::string> KeyFieldView::list() const {
  std::vector<std::string> items;
  // It was checked when the key was split.
  static_cast<void>(read_list(
      value, [&](std::size_t count) { items.reserve(count); },
      [&](std::string_view item) { items.emplace_back(item); }));
  return items;
}

Result<std::vector<KeyField>> parse_key(std::string_view material) {
  const auto views = split_key(material);
  if (!views) {
    return tl::unexpected(views.error());
  }
  std::vector<KeyField> fields;
  fields.reserve(views->size());
  for (const KeyFieldView& view : *views) {
    fields.push_back({view.type, std::string(view.name), values_of(view)});
  }
  return fields;
}

Result<std::vector<KeyFieldView>> split_key(std::string_view material) {
  std::vector<KeyFieldView> fields;
  ByteReader reader(material);
  while (!reader.empty() || fields.empty()) {
    auto field = split_field(reader);
    if (!field) {
      return tl::unexpected(std::move(field.error()));
    }
    if (fields.empty() != (field->type == KeyField::Type::kKind)) {
      return damaged("the kind must be the first field and only that");
    }
    fields.push_back(*field);
  }
  return fields;
}

std::string ToolchainFolder::name() const {
  return fmt::format("{}.{}-{}", major, minor, digest.hex());
}

Result<ToolchainFolder> ToolchainKey::parse_folder(std::string_view name) {
  const auto dot = name.find('.');
  const auto dash = name.find('-');
  if (dot != std::string_view::npos && dash != std::string_view::npos && dot < dash) {
    const auto major = parse_version_part(name.substr(0, dot));
    const auto minor = parse_version_part(name.substr(dot + 1, dash - dot - 1));
    const auto digest = Digest::parse(name.substr(dash + 1));
    if (major && minor && digest) {
      return ToolchainFolder{*major, *minor, *digest};
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is not a toolchain folder such as 13.0-<32 hex digits>", name));
}

}  // namespace kiln::cache
