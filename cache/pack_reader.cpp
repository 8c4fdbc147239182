#include "cache/pack_reader.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>
#include <xxhash.h>

#include "cache/entry.hpp"

namespace kiln::cache {
namespace {

using Kind = LayerFailure::Kind;

constexpr std::size_t kChunkBytes = 1 << 20;

std::vector<std::uint32_t> uses_of(const PackIndex& index) {
  std::vector<std::uint32_t> uses(index.blobs.size());
  for (const std::uint32_t piece : index.pieces) {
    ++uses[piece];
  }
  return uses;
}

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
  directory_ = PackDirectory(index_);
  uses_ = uses_of(index_);
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
    if (auto checked = check_stored(blob, bytes); !checked) {
      return checked;
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

// How many of the first pieces are stored as they are and lie one after the other in the file, so
// that one read gets them all. An entry that shares nothing is one run.
std::size_t PackReader::run_length(Pieces pieces) const {
  std::size_t length = 0;
  std::uint64_t end = 0;
  for (const std::uint32_t piece : pieces) {
    const PackBlob& blob = index_.blobs[piece];
    if (blob.compressed() || (length > 0 && blob.offset != end)) {
      break;
    }
    end = blob.offset + blob.stored_bytes;
    ++length;
  }
  return length;
}

Layered<void> PackReader::append_stored(Pieces run, std::string& out) const {
  const PackBlob& first = index_.blobs[run.front()];
  const PackBlob& last = index_.blobs[run.back()];
  std::size_t at = out.size();
  out.resize(at + static_cast<std::size_t>(last.offset + last.stored_bytes - first.offset));
  if (auto read = read_exactly(out.data() + at, out.size() - at, first.offset); !read) {
    return read;
  }
  for (const std::uint32_t piece : run) {
    const PackBlob& blob = index_.blobs[piece];
    if (auto checked = check_stored(blob, std::string_view(out).substr(at, blob.stored_bytes));
        !checked) {
      return checked;
    }
    at += blob.stored_bytes;
  }
  return {};
}

Layered<void> PackReader::append_inflated(std::uint32_t number, std::string& out) const {
  if (is_shared(number)) {
    const auto blob = shared(number);
    if (!blob) {
      return tl::unexpected(blob.error());
    }
    out += blob->bytes();
    return {};
  }
  const auto blob = inflate(index_.blobs[number]);
  if (!blob) {
    return tl::unexpected(blob.error());
  }
  out += blob->bytes();
  return {};
}

Layered<Image> PackReader::shared(std::uint32_t number) const {
  if (std::optional<Image> known = shelf_.find(number)) {
    return std::move(*known);
  }
  const std::lock_guard lock(inflating_[number % inflating_.size()]);
  if (std::optional<Image> known = shelf_.find(number)) {
    return std::move(*known);
  }
  auto blob = inflate(index_.blobs[number]);
  if (blob) {
    shelf_.put(number, *blob);
  }
  return blob;
}

Layered<Image> PackReader::inflate(const PackBlob& blob) const {
  auto frame = std::make_unique_for_overwrite<char[]>(blob.stored_bytes);
  auto read = read_exactly(frame.get(), blob.stored_bytes, blob.offset);
  if (read) {
    read = check_stored(blob, {frame.get(), blob.stored_bytes});
  }
  if (!read) {
    return tl::unexpected(read.error());
  }
  if (!blob.compressed()) {
    return Image(std::move(frame), blob.stored_bytes);
  }
  auto bytes = std::make_unique_for_overwrite<char[]>(blob.bytes);
  if (inflaters_.inflate({frame.get(), blob.stored_bytes}, bytes.get(), blob.bytes) != blob.bytes) {
    return rejected("a blob is damaged: it does not decompress to its size");
  }
  return Image(std::move(bytes), blob.bytes);
}

Layered<void> PackReader::check_stored(const PackBlob& blob, std::string_view stored) const {
  if (signed_only_ && blake2b(stored) != blob.hash) {
    return rejected("it was altered after it was signed: a blob is not the one of its index");
  }
  return {};
}

Layered<EntryFile> PackReader::read(const PackEntry& entry) const {
  Pieces rest = Pieces(index_.pieces).subspan(entry.first_piece, entry.pieces);
  const auto size_of = [&](std::uint64_t sum, std::uint32_t piece) {
    return sum + index_.blobs[piece].bytes;
  };
  const auto size = std::accumulate(rest.begin(), rest.end(), std::uint64_t{0}, size_of);
  if (size > kMaxEntryBytes) {
    return rejected("it is larger than an entry can be");
  }
  EntryFile file;
  if (!rest.empty() && is_head(rest.front())) {  // Where the writer put the image.
    auto head =
        is_shared(rest.front()) ? shared(rest.front()) : inflate(index_.blobs[rest.front()]);
    if (!head) {
      return tl::unexpected(std::move(head.error()));
    }
    file.head = std::move(*head);
    rest = rest.subspan(1);
  }
  file.rest.reserve(static_cast<std::size_t>(size - file.head.size()));
  while (!rest.empty()) {
    const std::size_t run = run_length(rest);
    const auto appended = run > 0 ? append_stored(rest.first(run), file.rest)
                                  : append_inflated(rest.front(), file.rest);
    if (!appended) {
      return tl::unexpected(appended.error());
    }
    rest = rest.subspan(std::max<std::size_t>(run, 1));
  }
  return file;
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
