#include "cache/pack_writer.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <zstd.h>

#include "cache/inventory.hpp"
#include "cache/pack_format.hpp"
#include "cache/pack_pieces.hpp"

namespace kiln::cache {
namespace {

// Smaller blobs cost more to inflate than to read.
constexpr std::size_t kLeastCompressedBytes = 32 << 10;
constexpr int kCompressionLevel = 19;  // Written once, read by a fleet.

// The blob as a zstd frame, or empty where that does not save at least a quarter.
std::string compressed(std::string_view blob) {
  if (blob.size() < kLeastCompressedBytes) {
    return "";
  }
  std::string frame(ZSTD_compressBound(blob.size()), '\0');
  const std::size_t size =
      ZSTD_compress(frame.data(), frame.size(), blob.data(), blob.size(), kCompressionLevel);
  if (ZSTD_isError(size) != 0 || size > blob.size() / 4 * 3) {
    return "";
  }
  frame.resize(size);
  return frame;
}

class Builder {
 public:
  Builder() : bytes_(encode_pack_header()) {}

  Status add(const EntryAddress& address, std::string_view file) {
    const auto pieces = cut_entry(file);
    if (!pieces) {
      return tl::unexpected(pieces.error());
    }
    index_.entries.push_back({address, static_cast<std::uint32_t>(index_.pieces.size()),
                              static_cast<std::uint32_t>(pieces->size())});
    for (const std::string_view piece : *pieces) {
      index_.pieces.push_back(blob(piece));
    }
    return {};
  }

  Result<std::string> finish(const SigningKey* key) && {
    const std::string index = encode_pack_index(index_);
    if (index.size() > kMaxPackIndexBytes) {
      return fail(ErrorCode::kInvalidArgument, "these are more entries than one pack can hold");
    }
    PackTrailer trailer;
    trailer.index_bytes = index.size();
    trailer.index_digest = digest(index);
    if (key != nullptr) {
      trailer.signature.present = true;
      trailer.signature.key = key->public_key();
      trailer.signature.signature = key->sign(signed_bytes(index, trailer));
    }
    bytes_.append(index)
        .append(encode_trailer_counts(trailer))
        .append(encode_trailer_signature(trailer.signature));
    bytes_.append(encode_trailer_end(digest(bytes_)));
    return std::move(bytes_);
  }

 private:
  // The number of the blob with these bytes, stored at its first use.
  std::uint32_t blob(std::string_view piece) {
    const auto number = static_cast<std::uint32_t>(index_.blobs.size());
    const auto [known, is_new] = numbers_.emplace(blake2b(piece), number);
    if (is_new) {
      const std::string frame = compressed(piece);
      const std::string_view stored = frame.empty() ? piece : std::string_view(frame);
      index_.blobs.push_back({bytes_.size(), static_cast<std::uint32_t>(stored.size()),
                              static_cast<std::uint32_t>(piece.size()), blake2b(stored)});
      bytes_.append(stored);
    }
    return known->second;
  }

  std::string bytes_;
  PackIndex index_;
  std::map<Blake2b, std::uint32_t> numbers_;  // By the hash of a blob's bytes.
};

}  // namespace

Result<BuiltPack> build_pack(std::vector<EntryAddress> addresses, const ReadEntryFile& read,
                             const SigningKey* key) {
  std::sort(addresses.begin(), addresses.end(), pack_order);
  const auto same = [](const EntryAddress& a, const EntryAddress& b) { return !pack_order(a, b); };
  addresses.erase(std::unique(addresses.begin(), addresses.end(), same), addresses.end());
  BuiltPack pack;
  Builder builder;
  for (const EntryAddress& address : addresses) {
    const auto file = read(address);
    const auto sound =
        file ? decode_entry_at(address, *file) : Result<Entry>(tl::unexpected(file.error()));
    const Status added = sound ? builder.add(address, *file) : tl::unexpected(sound.error());
    if (!added) {
      return fail(added.error().code,
                  fmt::format("the entry {}/{}/{} cannot go into a pack: {}; 'kiln cache "
                              "verify' names every such entry, to be removed",
                              address.target, address.toolchain.name(),
                              Layout::entry_name(address.source), added.error().message));
    }
    pack.entry_bytes += file->size();
  }
  auto bytes = std::move(builder).finish(key);
  if (!bytes) {
    return tl::unexpected(std::move(bytes.error()));
  }
  pack.bytes = std::move(*bytes);
  pack.entries = addresses.size();
  return pack;
}

}  // namespace kiln::cache
