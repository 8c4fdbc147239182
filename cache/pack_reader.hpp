#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cache/blob_shelf.hpp"
#include "cache/entry.hpp"
#include "cache/file_system.hpp"
#include "cache/inflaters.hpp"
#include "cache/layer.hpp"
#include "cache/pack_format.hpp"
#include "cache/signature.hpp"
#include "cache/trust.hpp"

namespace kiln::cache {

/// Which packs may be used.
struct PackTrust {
  TrustPolicy policy;  ///< For a pack's owner and mode.
  TrustedKeys keys;
};

/// An open pack. Its index is in memory; blobs are read from the file as they are asked for. They
/// are not mapped: a page of a mapping that the disk or a truncation took away kills the process,
/// where a read fails with an error, and an entry's bytes are copied to their owner either way.
/// Thread-safe.
class PackReader {
 public:
  /// Reads and checks header, trailer and index and, with trusted keys, the signature and every
  /// blob. A disk error is kUnreadable; anything wrong with the file is kRejected, with the reason.
  /// Without `trust` nobody is asked who made the file: for looking at it, not for using it.
  static Layered<std::unique_ptr<PackReader>> open(FileSystem& file_system, const std::string& path,
                                                   const PackTrust* trust);

  const PackIndex& index() const noexcept { return index_; }
  /// Null when there is no such entry.
  const PackEntry* find(const EntryAddress& address) const {
    const auto number = directory_.find(address);
    return number ? &index_.entries[*number] : nullptr;
  }
  const PackSignature& signature() const noexcept { return trailer_.signature; }
  FileId file() const noexcept { return file_id_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }

  /// The entry's file. Checked: that all its bytes are there and, with trusted keys, that they are
  /// those that were signed. The entry's own checksum is for its reader.
  Layered<EntryFile> read(const PackEntry& entry) const;

  /// Reads the whole file and compares it with its checksum, and the signature with its key.
  Status verify_whole() const;

 private:
  PackReader(FileSystem& file_system, std::string path, OpenFile file)
      : file_system_(file_system), path_(std::move(path)), file_(std::move(file)) {}

  Layered<void> load(const PackTrust* trust);
  Layered<void> check_owner(const FileStatus& status, const PackTrust& trust) const;
  Layered<void> load_index();
  Layered<void> check_signature(const PackTrust& trust);
  Layered<void> check_blobs() const;
  Layered<void> check_stored(const PackBlob& blob, std::string_view stored) const;
  Layered<void> read_exactly(char* to, std::size_t size, std::uint64_t offset) const;
  using Pieces = std::span<const std::uint32_t>;
  Layered<void> append_stored(Pieces run, std::string& out) const;
  Layered<void> append_inflated(std::uint32_t number, std::string& out) const;
  Layered<Image> inflate(const PackBlob& blob) const;
  bool is_shared(std::uint32_t number) const { return uses_[number] > 1; }
  /// Whether it is not copied, when an entry begins with it.
  bool is_head(std::uint32_t number) const {
    return is_shared(number) || index_.blobs[number].compressed();
  }
  /// A blob that several entries hold.
  Layered<Image> shared(std::uint32_t number) const;
  std::size_t run_length(Pieces pieces) const;
  bool signature_holds() const;
  tl::unexpected<LayerFailure> rejected(std::string reason) const;

  FileSystem& file_system_;
  const std::string path_;
  OpenFile file_;
  FileId file_id_;
  std::uint64_t file_bytes_ = 0;
  bool signed_only_ = false;  // Trusted keys were asked for.
  std::string index_bytes_;   // As read; a signature is over them.
  PackIndex index_;
  PackDirectory directory_;          // Of index_.
  std::vector<std::uint32_t> uses_;  // Of each blob, how many pieces it is.
  PackTrailer trailer_;
  mutable BlobShelf shelf_;
  mutable Inflaters inflaters_;
  // Held while a shared blob is inflated, by its number: who wants the same one waits for it.
  mutable std::array<std::mutex, 16> inflating_;
};

}  // namespace kiln::cache
