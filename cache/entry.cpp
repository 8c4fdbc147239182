#include "cache/entry.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "cache/bytes.hpp"

namespace kiln::cache {
namespace {

constexpr std::string_view kMagic = "KilnEnt\n";
constexpr std::string_view kMetadataKind = "kiln.entry";
constexpr std::uint32_t kMetadataVersion = 1;

constexpr std::size_t kChecksumBytes = 2 * sizeof(std::uint64_t);
constexpr std::size_t kFooterBytes =
    kMagic.size() + 2 * sizeof(std::uint32_t) + 2 * sizeof(std::uint64_t) + kChecksumBytes;

tl::unexpected<Failure> bad(std::string reason) {
  return fail(ErrorCode::kIo, std::move(reason));
}

std::string encode_metadata(const Entry& entry) {
  KeyWriter writer(kMetadataKind, kMetadataVersion);
  writer.text("target", entry.source.target)
      .text("source", entry.source.material)
      .number("major", entry.toolchain.major)
      .number("minor", entry.toolchain.minor)
      .text("toolchain", entry.toolchain.material)
      .text("symbol", entry.symbol)
      .text("label", entry.label)
      .number("registers", entry.resources.registers)
      .number("shared_bytes", entry.resources.shared_bytes)
      .number("stack_bytes", entry.resources.stack_bytes)
      .number("spill_store_bytes", entry.resources.spill_store_bytes)
      .number("spill_load_bytes", entry.resources.spill_load_bytes)
      .number("pdl_wait", entry.pdl_wait ? 1 : 0);
  if (!entry.members.empty()) {
    writer.list("members", entry.members);
  }
  return std::move(writer).take();
}

// Hands out the metadata's fields in the order in which encode_metadata wrote them. After the first
// field that is not the expected one, everything is empty and ok() is false.
class MetadataReader {
 public:
  explicit MetadataReader(std::vector<KeyFieldView> fields) : fields_(std::move(fields)) {
    ok_ = fields_[0].name == kMetadataKind && fields_[0].number() == kMetadataVersion;
  }

  std::string_view text(std::string_view name) {
    const KeyFieldView* field = next(KeyField::Type::kText, name);
    return field == nullptr ? std::string_view() : field->value;
  }

  int number(std::string_view name, int limit = std::numeric_limits<int>::max()) {
    const KeyFieldView* field = next(KeyField::Type::kNumber, name);
    if (field == nullptr) {
      return 0;
    }
    const std::int64_t value = field->number();
    ok_ = value >= 0 && value <= limit;
    return ok_ ? static_cast<int>(value) : 0;
  }

  // A list that may be left out, but is not empty.
  std::vector<std::string> optional_list(std::string_view name) {
    if (next_ == fields_.size()) {
      return {};
    }
    const KeyFieldView* field = next(KeyField::Type::kList, name);
    std::vector<std::string> items = field == nullptr ? std::vector<std::string>() : field->list();
    ok_ = !items.empty();
    return items;
  }

  bool complete() const noexcept { return ok_ && next_ == fields_.size(); }

 private:
  const KeyFieldView* next(KeyField::Type type, std::string_view name) {
    ok_ =
        ok_ && next_ < fields_.size() && fields_[next_].type == type && fields_[next_].name == name;
    return ok_ ? &fields_[next_++] : nullptr;
  }

  std::vector<KeyFieldView> fields_;
  std::size_t next_ = 1;
  bool ok_ = false;
};

// Shares what was asked for where that is the same.
SourceKey source_key(std::string_view target, std::string_view material, const SourceKey* asked) {
  if (asked != nullptr && asked->target == target && asked->material.text() == material) {
    return *asked;
  }
  return {std::string(target), std::string(material)};
}

Result<Entry> decode_metadata(std::string_view metadata, const SourceKey* asked) {
  auto fields = split_key(metadata);
  if (!fields) {
    return bad("its metadata cannot be read: " + fields.error().message);
  }
  MetadataReader reader(std::move(*fields));
  Entry entry;
  const std::string_view target = reader.text("target");
  entry.source = source_key(target, reader.text("source"), asked);
  const int major = reader.number("major");
  const int minor = reader.number("minor");
  entry.toolchain = ToolchainKey(major, minor, std::string(reader.text("toolchain")));
  entry.symbol = reader.text("symbol");
  entry.label = reader.text("label");
  entry.resources.registers = reader.number("registers");
  entry.resources.shared_bytes = reader.number("shared_bytes");
  entry.resources.stack_bytes = reader.number("stack_bytes");
  entry.resources.spill_store_bytes = reader.number("spill_store_bytes");
  entry.resources.spill_load_bytes = reader.number("spill_load_bytes");
  entry.pdl_wait = reader.number("pdl_wait", 1) == 1;
  entry.members = reader.optional_list("members");
  if (!reader.complete()) {
    return bad("its metadata does not have the fields of this format version");
  }
  if (!entry.members.empty() && std::find(entry.members.begin(), entry.members.end(),
                                          entry.source.digest.hex()) == entry.members.end()) {
    return bad("its image does not list the kernel that the entry is for");
  }
  return entry;
}

/// What an entry's file ends in.
struct Footer {
  std::size_t image_size = 0;
  std::size_t metadata_size = 0;
  Digest checksum;
};

// Of a file of `file_size` bytes of which `end` are the last ones.
Result<Footer> read_footer(std::string_view end, std::uint64_t file_size) {
  if (end.size() < kFooterBytes) {
    return bad(fmt::format("it is truncated: {} bytes, fewer than a footer", end.size()));
  }
  ByteReader footer(end.substr(end.size() - kFooterBytes));
  if (footer.bytes(kMagic.size()) != kMagic) {
    return bad("it does not end in an entry's footer: truncated, or not an entry");
  }
  const auto version = footer.integer<std::uint32_t>();
  const auto reserved = footer.integer<std::uint32_t>();
  const auto image_size = footer.integer<std::uint64_t>();
  const auto metadata_size = footer.integer<std::uint64_t>();
  const auto low = footer.integer<std::uint64_t>();
  const auto high = footer.integer<std::uint64_t>();
  if (version != kEntryFormatVersion || reserved != 0U) {
    return bad(fmt::format("its format version is {}, expected {}", *version, kEntryFormatVersion));
  }
  const std::uint64_t body_size = file_size - kFooterBytes;
  if (*image_size > body_size || *metadata_size != body_size - *image_size) {
    return bad(fmt::format("its length is wrong: {} bytes before the footer, which says {} + {}",
                           body_size, *image_size, *metadata_size));
  }
  return Footer{static_cast<std::size_t>(*image_size), static_cast<std::size_t>(*metadata_size),
                Digest{*high, *low}};
}

tl::unexpected<Failure> wrong_checksum() {
  return bad("its checksum does not match its bytes");
}

}  // namespace

std::string encode_entry(const Entry& entry) {
  const std::string metadata = encode_metadata(entry);
  std::string bytes;
  bytes.reserve(entry.image.size() + metadata.size() + kFooterBytes);
  bytes.append(entry.image.bytes()).append(metadata).append(kMagic);
  append_integer(bytes, kEntryFormatVersion);
  append_integer(bytes, std::uint32_t{0});
  append_integer(bytes, std::uint64_t{entry.image.size()});
  append_integer(bytes, std::uint64_t{metadata.size()});
  const Digest checksum = digest(bytes);
  append_integer(bytes, checksum.low);
  append_integer(bytes, checksum.high);
  return bytes;
}

Result<EntryParts> split_entry(std::string_view bytes) {
  const Result<Footer> footer = read_footer(bytes, bytes.size());
  if (!footer) {
    return tl::unexpected(footer.error());
  }
  if (digest(bytes.substr(0, bytes.size() - kChecksumBytes)) != footer->checksum) {
    return wrong_checksum();
  }
  return EntryParts{bytes.substr(0, footer->image_size),
                    bytes.substr(footer->image_size, footer->metadata_size)};
}

namespace {

// The image becomes the head, so that it is hashed once for the entry and for whoever asks for its
// own digest.
Result<EntryFile> cut_off_image(std::string bytes) {
  const Result<Footer> footer = read_footer(bytes, bytes.size());
  if (!footer) {
    return tl::unexpected(footer.error());
  }
  std::string rest = bytes.substr(footer->image_size);
  bytes.resize(footer->image_size);
  return EntryFile(std::move(bytes), std::move(rest));
}

}  // namespace

Result<Entry> decode_entry(EntryFile file, const SourceKey* asked) {
  Result<Footer> footer = read_footer(file.rest, file.size());
  if (!footer || footer->image_size != file.head.size()) {
    Result<EntryFile> cut = cut_off_image(std::move(file).joined());
    if (!cut) {
      return tl::unexpected(std::move(cut.error()));
    }
    file = std::move(*cut);
    footer = read_footer(file.rest, file.size());
  }
  const std::string_view rest = file.rest;
  if (file.head.digest_with(rest.substr(0, rest.size() - kChecksumBytes)) != footer->checksum) {
    return wrong_checksum();
  }
  auto entry = decode_metadata(rest.substr(0, footer->metadata_size), asked);
  if (entry) {
    entry->image = std::move(file.head);
  }
  return entry;
}

}  // namespace kiln::cache
