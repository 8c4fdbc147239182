#include "cache/pack_format.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "cache/bytes.hpp"
#include "cache/entry.hpp"

namespace kiln::cache {
namespace {

constexpr std::string_view kMagic = "KilnPack";
constexpr std::uint32_t kFormatVersion = 1;
constexpr std::uint32_t kSignatureNone = 0;
constexpr std::uint32_t kSignatureEd25519 = 1;
constexpr std::size_t kBlobRecordBytes = 2 * sizeof(std::uint32_t) + sizeof(Blake2b);
constexpr std::size_t kLeastGroupBytes = 4 * sizeof(std::uint32_t) + 2 * sizeof(std::uint64_t);
constexpr std::size_t kMaxTargetBytes = 64;  // Each entry in memory has a copy of the name.
constexpr std::size_t kEntryRecordBytes = 2 * sizeof(std::uint64_t) + sizeof(std::uint32_t);

tl::unexpected<Failure> bad(std::string reason) {
  return fail(ErrorCode::kIo, std::move(reason));
}

tl::unexpected<Failure> bad_index(std::string_view what) {
  return bad(fmt::format("its index is damaged: {}", what));
}

template <std::size_t N>
void append_array(std::string& out, const std::array<std::uint8_t, N>& bytes) {
  for (const std::uint8_t byte : bytes) {
    out.push_back(static_cast<char>(byte));
  }
}

template <std::size_t N>
bool read_array(ByteReader& reader, std::array<std::uint8_t, N>& out) {
  const auto bytes = reader.bytes(N);
  if (bytes) {
    std::memcpy(out.data(), bytes->data(), N);
  }
  return bytes.has_value();
}

void append_digest(std::string& out, const Digest& digest) {
  append_integer(out, digest.low);
  append_integer(out, digest.high);
}

std::optional<Digest> read_digest(ByteReader& reader) {
  const auto low = reader.integer<std::uint64_t>();
  const auto high = reader.integer<std::uint64_t>();
  return high ? std::optional(Digest{*high, *low}) : std::nullopt;
}

bool same_folder(const EntryAddress& a, const EntryAddress& b) {
  return a.target == b.target && a.toolchain == b.toolchain;
}

struct Counts {
  std::uint32_t blobs = 0;
  std::uint32_t groups = 0;
  std::uint32_t entries = 0;
  std::uint32_t pieces = 0;
};

std::optional<Counts> read_counts(ByteReader& reader) {
  const auto blobs = reader.integer<std::uint32_t>();
  const auto groups = reader.integer<std::uint32_t>();
  const auto entries = reader.integer<std::uint32_t>();
  const auto pieces = reader.integer<std::uint32_t>();
  if (!pieces) {
    return std::nullopt;
  }
  // What wrong counts could make us reserve is bounded by the bytes that are there.
  const std::uint64_t least =
      std::uint64_t{*blobs} * kBlobRecordBytes + std::uint64_t{*groups} * kLeastGroupBytes +
      std::uint64_t{*entries} * kEntryRecordBytes + std::uint64_t{*pieces} * sizeof(std::uint32_t);
  return least <= reader.remaining() ? std::optional(Counts{*blobs, *groups, *entries, *pieces})
                                     : std::nullopt;
}

Status read_blobs(ByteReader& reader, std::uint32_t count, std::uint64_t blob_bytes,
                  std::vector<PackBlob>& blobs) {
  std::uint64_t offset = kPackHeaderBytes;
  blobs.resize(count);
  for (PackBlob& blob : blobs) {
    const auto stored = reader.integer<std::uint32_t>();
    const auto bytes = reader.integer<std::uint32_t>();
    if (!bytes || !read_array(reader, blob.hash) || *stored > *bytes || *stored == 0 ||
        *bytes > kMaxEntryBytes) {
      return bad_index("a blob's size is out of range");
    }
    blob.offset = offset;
    blob.stored_bytes = *stored;
    blob.bytes = *bytes;
    offset += *stored;
  }
  return offset == kPackHeaderBytes + blob_bytes
             ? Status()
             : bad_index("its blobs do not fill the place between header and index");
}

// Gives each entry of the index the folder of its group.
Status read_groups(ByteReader& reader, const Counts& counts, std::vector<PackEntry>& entries) {
  entries.reserve(counts.entries);
  for (std::uint32_t i = 0; i < counts.groups; ++i) {
    const auto length = reader.integer<std::uint32_t>();
    const auto target = length ? reader.bytes(*length) : std::nullopt;
    const auto major = target ? reader.integer<std::uint32_t>() : std::nullopt;
    const auto minor = reader.integer<std::uint32_t>();
    const auto toolchain = read_digest(reader);
    const auto size = reader.integer<std::uint32_t>();
    constexpr std::uint32_t kMaxVersion = std::numeric_limits<int>::max();
    if (!size || !toolchain || !major || *major > kMaxVersion || *minor > kMaxVersion ||
        target->size() > kMaxTargetBytes || !Layout::is_target_name(*target)) {
      return bad_index("a group cannot be read");
    }
    EntryAddress address{
        std::string(*target), {static_cast<int>(*major), static_cast<int>(*minor), *toolchain}, {}};
    if (*size == 0 || *size > counts.entries - entries.size() ||
        (!entries.empty() && !pack_order(entries.back().address, address))) {
      return bad_index("its groups are out of order or have too many entries");
    }
    entries.insert(entries.end(), *size, PackEntry{address, 0, 0});
  }
  return entries.size() == counts.entries ? Status() : bad_index("an entry belongs to no group");
}

Status read_entries(ByteReader& reader, std::uint32_t all_pieces, std::vector<PackEntry>& entries) {
  std::uint32_t next_piece = 0;
  const PackEntry* previous = nullptr;
  for (PackEntry& entry : entries) {
    const auto source = read_digest(reader);
    const auto pieces = reader.integer<std::uint32_t>();
    if (!source || !pieces || *pieces > all_pieces - next_piece) {
      return bad_index("an entry's pieces are out of range");
    }
    entry.address.source = *source;
    entry.first_piece = next_piece;
    entry.pieces = *pieces;
    next_piece += *pieces;
    if (previous != nullptr && !pack_order(previous->address, entry.address)) {
      return bad_index("its entries are out of order");
    }
    previous = &entry;
  }
  return next_piece == all_pieces ? Status() : bad_index("a piece belongs to no entry");
}

Status read_pieces(ByteReader& reader, std::uint32_t count, PackIndex& index) {
  index.pieces.resize(count);
  for (std::uint32_t& piece : index.pieces) {
    const auto blob = reader.integer<std::uint32_t>();
    if (!blob || *blob >= index.blobs.size()) {
      return bad_index("a piece names no blob");
    }
    piece = *blob;
  }
  return reader.empty() ? Status() : bad_index("it has bytes after its last piece");
}

}  // namespace

bool pack_order(const EntryAddress& a, const EntryAddress& b) {
  return std::tie(a.target, a.toolchain, a.source) < std::tie(b.target, b.toolchain, b.source);
}

PackDirectory::PackDirectory(const PackIndex& index) {
  sources_.reserve(index.entries.size());
  for (const PackEntry& entry : index.entries) {
    if (folders_.empty() || !same_folder(folders_.back().address, entry.address)) {
      folders_.push_back(
          {{entry.address.target, entry.address.toolchain, {}}, sources_.size(), sources_.size()});
    }
    sources_.push_back(entry.address.source);
    folders_.back().end = sources_.size();
  }
}

std::optional<std::size_t> PackDirectory::find(const EntryAddress& address) const {
  for (const Folder& folder : folders_) {
    if (same_folder(folder.address, address)) {
      const auto begin = sources_.begin() + static_cast<std::ptrdiff_t>(folder.begin);
      const auto end = sources_.begin() + static_cast<std::ptrdiff_t>(folder.end);
      const auto at = std::lower_bound(begin, end, address.source);
      return at != end && *at == address.source
                 ? std::optional(static_cast<std::size_t>(at - sources_.begin()))
                 : std::nullopt;
    }
  }
  return std::nullopt;
}

std::string encode_pack_header() {
  std::string bytes(kMagic);
  append_integer(bytes, kFormatVersion);
  append_integer(bytes, kEntryFormatVersion);
  return bytes;
}

Status check_pack_header(std::string_view header) {
  ByteReader reader(header);
  if (reader.bytes(kMagic.size()) != kMagic) {
    return bad("it is not a pack");
  }
  const auto version = reader.integer<std::uint32_t>();
  const auto entry_version = reader.integer<std::uint32_t>();
  if (version != kFormatVersion) {
    return bad(fmt::format("its pack format version is {}, and this library reads {}",
                           version.value_or(0), kFormatVersion));
  }
  if (entry_version != kEntryFormatVersion) {
    return bad(fmt::format("its entries have format version {}, and this library reads {}",
                           entry_version.value_or(0), kEntryFormatVersion));
  }
  return {};
}

std::string encode_pack_index(const PackIndex& index) {
  std::string groups;
  std::string entries;
  std::uint32_t group_count = 0;
  for (auto begin = index.entries.begin(); begin != index.entries.end(); ++group_count) {
    const EntryAddress& folder = begin->address;
    const auto end = std::find_if(begin, index.entries.end(), [&](const PackEntry& entry) {
      return !same_folder(entry.address, folder);
    });
    append_integer(groups, static_cast<std::uint32_t>(folder.target.size()));
    groups.append(folder.target);
    append_integer(groups, static_cast<std::uint32_t>(folder.toolchain.major));
    append_integer(groups, static_cast<std::uint32_t>(folder.toolchain.minor));
    append_digest(groups, folder.toolchain.digest);
    append_integer(groups, static_cast<std::uint32_t>(end - begin));
    for (; begin != end; ++begin) {
      append_digest(entries, begin->address.source);
      append_integer(entries, begin->pieces);
    }
  }
  std::string bytes;
  append_integer(bytes, static_cast<std::uint32_t>(index.blobs.size()));
  append_integer(bytes, group_count);
  append_integer(bytes, static_cast<std::uint32_t>(index.entries.size()));
  append_integer(bytes, static_cast<std::uint32_t>(index.pieces.size()));
  for (const PackBlob& blob : index.blobs) {
    append_integer(bytes, blob.stored_bytes);
    append_integer(bytes, blob.bytes);
    append_array(bytes, blob.hash);
  }
  bytes.append(groups).append(entries);
  for (const std::uint32_t piece : index.pieces) {
    append_integer(bytes, piece);
  }
  return bytes;
}

Result<PackIndex> parse_pack_index(std::string_view bytes, std::uint64_t blob_bytes) {
  ByteReader reader(bytes);
  const auto counts = read_counts(reader);
  if (!counts) {
    return bad_index("it counts more than it holds");
  }
  PackIndex index;
  Status status = read_blobs(reader, counts->blobs, blob_bytes, index.blobs);
  if (status) {
    status = read_groups(reader, *counts, index.entries);
  }
  if (status) {
    status = read_entries(reader, counts->pieces, index.entries);
  }
  if (status) {
    status = read_pieces(reader, counts->pieces, index);
  }
  if (!status) {
    return tl::unexpected(std::move(status.error()));
  }
  return index;
}

std::string encode_trailer_counts(const PackTrailer& trailer) {
  std::string bytes;
  append_integer(bytes, trailer.index_bytes);
  append_digest(bytes, trailer.index_digest);
  return bytes;
}

std::string encode_trailer_signature(const PackSignature& signature) {
  std::string bytes;
  append_integer(bytes, signature.present ? kSignatureEd25519 : kSignatureNone);
  append_integer(bytes, std::uint32_t{0});
  append_array(bytes, signature.key);
  append_array(bytes, signature.signature);
  return bytes;
}

std::string encode_trailer_end(const Digest& whole_digest) {
  std::string bytes;
  append_digest(bytes, whole_digest);
  return bytes.append(kMagic);
}

Result<PackTrailer> parse_pack_trailer(std::string_view trailer) {
  ByteReader reader(trailer);
  PackTrailer parsed;
  const auto index_bytes = reader.integer<std::uint64_t>();
  const auto index_digest = read_digest(reader);
  const auto kind = reader.integer<std::uint32_t>();
  const auto reserved = reader.integer<std::uint32_t>();
  const bool arrays =
      read_array(reader, parsed.signature.key) && read_array(reader, parsed.signature.signature);
  const auto whole = read_digest(reader);
  if (!arrays || !whole || reader.bytes(kMagic.size()) != kMagic || !reader.empty()) {
    return bad("it does not end in a pack's trailer: truncated, or longer than it was written");
  }
  parsed.index_bytes = *index_bytes;
  parsed.index_digest = *index_digest;
  parsed.whole_digest = *whole;
  // A signature of an unknown kind is none: it makes nothing trusted.
  parsed.signature.present = kind == kSignatureEd25519 && reserved == 0U;
  return parsed;
}

std::string signed_bytes(std::string_view index, const PackTrailer& trailer) {
  return encode_pack_header().append(index).append(encode_trailer_counts(trailer));
}

}  // namespace kiln::cache
