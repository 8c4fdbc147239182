#pragma once

/// \file
/// One file that holds many entries, and never changes. No disk here: bytes to tables and back.
///
/// [on-disk.begin]
///   pack        := header blob* index trailer
///   header      := "KilnPack" u32(pack format version) u32(entry format version)
///   blob        := a piece of one or more entries, as it is or as one zstd frame
///   index       := u32(blobs) u32(groups) u32(entries) u32(pieces)
///                  blob_record* group* entry_record* piece*
///   blob_record := u32(stored bytes) u32(bytes) BLAKE2b-256 of the stored bytes
///                  Stored as it is when both are equal, else as a zstd frame. The blobs lie in
///                  this order without gaps and fill the file from the header to the index.
///   group       := u32(length) target u32(major) u32(minor) u64(toolchain digest, low half)
///                  u64(high half) u32(entries)      one folder; sorted by target, then toolchain
///   entry_record:= u64(source digest, low half) u64(high half) u32(pieces)
///                  of the first group, then of the second, and so on; sorted by digest in a group
///   piece       := u32(blob number)      of the first entry, then of the second, and so on
///   trailer     := u64(index bytes) XXH3-128 of the index, signature,
///                  XXH3-128 of all bytes of the file before it, "KilnPack"
///   signature   := u32(0: none, 1: ed25519) u32(0) public key (32 bytes) signature (64 bytes)
///                  of header, index, and the trailer up to here
///   The pieces of an entry, one after the other, are its file, byte for byte. Integers are
///   little-endian, an XXH3-128 is two u64: low, high. Nothing depends on time, host, user or path,
///   nor on the order in which entries were found: equal entries give equal packs.
///
///   pack format version 1: the first. An entry's format version other than the reader's own, like
///   another pack format version, makes every entry of the pack a miss.
/// [on-disk.end]

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cache/key.hpp"
#include "cache/layout.hpp"
#include "cache/signature.hpp"

namespace kiln::cache {

struct PackBlob {
  std::uint64_t offset = 0;  ///< In the file; follows from the sizes before it.
  std::uint32_t stored_bytes = 0;
  std::uint32_t bytes = 0;
  Blake2b hash = {};  ///< Of what is stored.

  bool compressed() const noexcept { return stored_bytes != bytes; }
};

struct PackEntry {
  EntryAddress address;
  std::uint32_t first_piece = 0;
  std::uint32_t pieces = 0;
};

/// What the index says. The entries are sorted by target, toolchain and digest.
struct PackIndex {
  std::vector<PackBlob> blobs;
  std::vector<PackEntry> entries;
  std::vector<std::uint32_t> pieces;  ///< Blob numbers.
};

/// Finds entries of an index, which must stay as it is. A search touches little memory however many
/// entries there are: first the few folders, then a dense table of digests.
class PackDirectory {
 public:
  PackDirectory() = default;
  explicit PackDirectory(const PackIndex& index);
  /// The entry's number; nothing when there is no such entry.
  std::optional<std::size_t> find(const EntryAddress& address) const;

 private:
  struct Folder {
    EntryAddress address;  // Without a source.
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  std::vector<Folder> folders_;
  std::vector<Digest> sources_;  // Of all entries, in their order.
};

/// The order of a pack's entries.
bool pack_order(const EntryAddress& a, const EntryAddress& b);

/// Whoever signed a pack, and how.
struct PackSignature {
  bool present = false;
  PublicKey key = {};
  Signature signature = {};
};

struct PackTrailer {
  std::uint64_t index_bytes = 0;
  Digest index_digest;
  PackSignature signature;
  Digest whole_digest;
};

inline constexpr std::size_t kPackHeaderBytes = 16;
inline constexpr std::size_t kPackTrailerBytes = 8 + 16 + (4 + 4 + 32 + 64) + 16 + 8;
/// A larger index is refused before anything is allocated for it: 4 million entries.
inline constexpr std::uint64_t kMaxPackIndexBytes = std::uint64_t{512} << 20;

std::string encode_pack_header();
/// Fails for what is no pack, and for a pack of another version.
Status check_pack_header(std::string_view header);

/// Sorted entries, the pieces in their order, and blobs in the order of their first use.
std::string encode_pack_index(const PackIndex& index);
/// Every number is checked against what it counts or points to, so that the result can be used
/// without further checks. `blob_bytes` is how much of the file the blobs take.
Result<PackIndex> parse_pack_index(std::string_view bytes, std::uint64_t blob_bytes);

/// The trailer's beginning, which a signature covers after header and index.
std::string encode_trailer_counts(const PackTrailer& trailer);
/// What lies between the counts and the whole's checksum.
std::string encode_trailer_signature(const PackSignature& signature);
/// The end: the checksum of all that comes before it, and the mark.
std::string encode_trailer_end(const Digest& whole_digest);
Result<PackTrailer> parse_pack_trailer(std::string_view trailer);

/// What a signature is over.
std::string signed_bytes(std::string_view index, const PackTrailer& trailer);

}  // namespace kiln::cache
