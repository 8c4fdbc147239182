#include "cache/pack_reader.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>
#include <xxhash.h>
#include <zstd.h>

#include "cache/entry.hpp"

namespace kiln::cache {
namespace {

using Kind = LayerFailure::Kind;

constexpr std::size_t kChunkBytes = 1 << 20;

tl::unexpected<LayerFailure> unreadable(const std::string& path, int error) {
  return tl::unexpected(LayerFailure{Kind::kUnreadable, path, errno_text(error)});
}

}  // namespace

tl::unexpected<LayerFailure> PackReader::rejected(std::string reason) const {
  return tl::unexpected(LayerFailure{Kind::kRejected, path_, std::move(reason)});
}

Layered<std::unique_ptr<PackReader>> PackReader::open(FileSystem& file_system,
                                                      const std::string& path,
                                                      const PackTrust* trust) {
  const auto handle = file_system.open_for_read(path);
  if (!handle) {
    return unreadable(path, handle.error());
  }
  std::unique_ptr<PackReader> reader(
      new PackReader(file_system, path, OpenFile(file_system, *handle)));
  if (auto loaded = reader->load(trust); !loaded) {
    return tl::unexpected(std::move(loaded.error()));
  }
  return reader;
}

Layered<void> PackReader::load(const PackTrust* trust) {
  const auto status = file_system_.status(file_.get());
  if (!status) {
    return unreadable(path_, status.error());
  }
  if (status->kind != FileStatus::Kind::kFile) {
    return rejected("it is not a plain file");
  }
  file_id_ = status->id;
  file_bytes_ = status->size;
  signed_only_ = trust != nullptr && trust->keys.required;
  Layered<void> loaded = trust != nullptr ? check_owner(*status, *trust) : Layered<void>();
  if (loaded) {
    loaded = load_index();
  }
  if (loaded && signed_only_) {
    loaded = check_signature(*trust);
  }
  if (loaded && signed_only_) {
    loaded = check_blobs();
  }
  return loaded;
}

Layered<void> PackReader::check_owner(const FileStatus& status, const PackTrust& trust) const {
  if (!trust.keys.problem.empty()) {
    return rejected("the keys that packs must be signed with are not all there: " +
                    trust.keys.problem);
  }
  // Whoever may write the file does not matter when what is in it is signed.
  const Verdict verdict = judge(status, TrustRole::kPack, trust.policy, signed_only_);
  if (verdict.ok()) {
    return {};
  }
  // Whoever prints a reason puts the full stop.
  const auto last = verdict.remedy.find_last_not_of('.');
  return rejected(verdict.reason + ". " + verdict.remedy.substr(0, last + 1));
}

Layered<void> PackReader::load_index() {
  if (file_bytes_ < kPackHeaderBytes + kPackTrailerBytes) {
    return rejected(
        fmt::format("it is truncated, or no pack: {} bytes, fewer than an empty one", file_bytes_));
  }
  std::string ends(kPackHeaderBytes + kPackTrailerBytes, '\0');
  Layered<void> read = read_exactly(ends.data(), kPackHeaderBytes, 0);
  if (!read) {
    return read;
  }
  const std::string_view header = std::string_view(ends).substr(0, kPackHeaderBytes);
  if (const auto known = check_pack_header(header); !known) {
    return rejected(known.error().message);
  }
  const std::uint64_t end = file_bytes_ - kPackTrailerBytes;
  read = read_exactly(ends.data() + kPackHeaderBytes, kPackTrailerBytes, end);
  if (!read) {
    return read;
  }
  const auto trailer = parse_pack_trailer(std::string_view(ends).substr(kPackHeaderBytes));
  if (!trailer) {
    return rejected(trailer.error().message);
  }
  trailer_ = *trailer;
  if (trailer_.index_bytes > end - kPackHeaderBytes || trailer_.index_bytes > kMaxPackIndexBytes) {
    return rejected("its index is damaged: it is longer than the file can hold");
  }
  index_bytes_.resize(static_cast<std::size_t>(trailer_.index_bytes));
  read = read_exactly(index_bytes_.data(), index_bytes_.size(), end - trailer_.index_bytes);
  if (!read) {
    return read;
  }
  if (digest(index_bytes_) != trailer_.index_digest) {
    return rejected("its index is damaged: its checksum does not match");
  }
  auto index = parse_pack_index(index_bytes_, end - trailer_.index_bytes - kPackHeaderBytes);
  if (!index) {
    return rejected(index.error().message);
  }
  index_ = std::move(*index);
  return {};
}

bool PackReader::signature_holds() const {
  return trailer_.signature.present &&
         is_signed_by(trailer_.signature.key, trailer_.signature.signature,
                      signed_bytes(index_bytes_, trailer_));
}

Layered<void> PackReader::check_signature(const PackTrust& trust) {
  const PackSignature& signature = trailer_.signature;
  if (!signature.present) {
    return rejected("it is not signed, and trusted keys are configured");
  }
  const auto& keys = trust.keys.keys;
  if (std::find(keys.begin(), keys.end(), signature.key) == keys.end()) {
    return rejected(fmt::format("it is signed by {}, which is none of the trusted keys",
                                format_public_key(signature.key)));
  }
  if (!signature_holds()) {
    return rejected("its signature does not match its index: it was altered after it was signed");
  }
  return {};
}

Layered<void> PackReader::check_blobs() const {
  std::string bytes;
  for (const PackBlob& blob : index_.blobs) {
    bytes.resize(blob.stored_bytes);
    if (auto read = read_exactly(bytes.data(), bytes.size(), blob.offset); !read) {
      return read;
    }
    if (blake2b(bytes) != blob.hash) {
      return rejected("it was altered after it was signed: a blob is not the one of its index");
    }
  }
  return {};
}

Layered<void> PackReader::read_exactly(char* to, std::size_t size, std::uint64_t offset) const {
  while (size > 0) {
    const auto count = file_system_.read_at(file_.get(), to, size, offset);
    if (!count) {
      return unreadable(path_, count.error());
    }
    if (*count == 0) {
      return rejected("it became shorter after it was opened");
    }
    to += *count;
    size -= *count;
    offset += *count;
  }
  return {};
}

Layered<void> PackReader::append_blob(const PackBlob& blob, std::string& out) const {
  const std::size_t before = out.size();
  std::string frame;
  std::string& stored = blob.compressed() ? frame : out;
  const std::size_t at = stored.size();
  stored.resize(at + blob.stored_bytes);
  if (auto read = read_exactly(stored.data() + at, blob.stored_bytes, blob.offset); !read) {
    return read;
  }
  if (signed_only_ && blake2b(std::string_view(stored).substr(at)) != blob.hash) {
    return rejected("it was altered after it was opened: a blob is not the one of its index");
  }
  if (!blob.compressed()) {
    return {};
  }
  out.resize(before + blob.bytes);
  const std::size_t inflated =
      ZSTD_decompress(out.data() + before, blob.bytes, frame.data(), frame.size());
  if (ZSTD_isError(inflated) != 0 || inflated != blob.bytes) {
    return rejected("a blob is damaged: it does not decompress to its size");
  }
  return {};
}

Layered<std::string> PackReader::read(const PackEntry& entry) const {
  const auto first = index_.pieces.begin() + entry.first_piece;
  const auto last = first + entry.pieces;
  const auto size = std::accumulate(
      first, last, std::uint64_t{0},
      [&](std::uint64_t sum, std::uint32_t piece) { return sum + index_.blobs[piece].bytes; });
  if (size > kMaxEntryBytes) {
    return rejected("it is larger than an entry can be");
  }
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(size));
  for (auto piece = first; piece != last; ++piece) {
    if (auto appended = append_blob(index_.blobs[*piece], bytes); !appended) {
      return tl::unexpected(std::move(appended.error()));
    }
  }
  return bytes;
}

Status PackReader::verify_whole() const {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  const std::uint64_t end = file_bytes_ - encode_trailer_end({}).size();
  std::string chunk;
  for (std::uint64_t at = 0; at < end; at += chunk.size()) {
    chunk.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, end - at)));
    if (const auto read = read_exactly(chunk.data(), chunk.size(), at); !read) {
      return fail(ErrorCode::kIo, read.error().reason);
    }
    XXH3_128bits_update(state.get(), chunk.data(), chunk.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  if (Digest{hash.high64, hash.low64} != trailer_.whole_digest) {
    return fail(ErrorCode::kIo, "its checksum does not match its bytes");
  }
  if (trailer_.signature.present && !signature_holds()) {
    return fail(ErrorCode::kIo, "its signature does not match its index");
  }
  return {};
}

}  // namespace kiln::cache
