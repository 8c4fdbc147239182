#pragma once

/// \file
/// One cache entry and its file format.
///
/// [on-disk.begin]
///   <root>/v1/<target>/<major>.<minor>-<toolchain digest>/<source digest>.cubin    one entry
///   <root>/v1/tmp/<host>.<pid>.<random>.tmp          being written; published by one rename;
///                  left by a dead writer, removed by another after an hour
///   <root>/v1/quarantine/<time>-<entry's names>      failed a check; at most 64, oldest dropped
///   <root>/v1/locks/<two hex digits>                 flock()ed while compiling a kernel for which
///                  they are the first byte of (source digest xor toolchain digest); never removed
///
///   entry    := image metadata footer
///   image    := the payload, first, so that tools for it read the file as it is
///   metadata := key material of kind "kiln.entry" (grammar in cache/key.hpp) with the fields, in
///               this order: text target, text source, number major, number minor, text toolchain,
///               text symbol, text label, number registers, number shared_bytes, number
///               stack_bytes, number spill_store_bytes, number spill_load_bytes, number pdl_wait,
///               and, where the image holds more than one kernel, list members
///   members  := the source digests, in hex, of all kernels that were compiled into this image
///               together, in that order; that of `source` is one of them. Each of them has a file
///               of its own with the same image, so that damage to one is damage to one.
///   footer   := "KilnEnt\n" u32(format version) u32(0) u64(image bytes) u64(metadata bytes)
///               XXH3-128 of all bytes of the file before it, as two u64: low, high
///   Integers are little-endian. Nothing in an entry depends on time, host, user or path: equal
///   inputs give equal files. An entry is never changed after its rename.
///
///   v1 (format version 1): the first.
///   A change of the footer's layout, of the metadata or of the folders makes a new <root>/v<n>; an
///   older library then never sees the new files, and a newer one treats the old as absent.
/// [on-disk.end]

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "cache/image.hpp"
#include "cache/key.hpp"

namespace kiln::cache {

/// What the compiler reported about the kernel. Bytes per block (shared) or per thread (the rest).
struct Resources {
  int registers = 0;
  int shared_bytes = 0;
  int stack_bytes = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  bool operator==(const Resources&) const = default;
};

/// A compiled kernel with everything needed to trust and launch it.
struct Entry {
  SourceKey source;
  ToolchainKey toolchain;
  std::string symbol;  ///< Lowered (mangled) name of the kernel in the image.
  std::string label;   ///< How listings call it; not part of the key, may be empty.
  Resources resources;
  bool pdl_wait = false;
  /// Source digests, in hex, of all kernels in the image, its own among them; empty when its own is
  /// the only one.
  std::vector<std::string> members;
  Image image;
};

/// Of the footer, the metadata and the folders; raised with <root>/v<n>.
inline constexpr std::uint32_t kEntryFormatVersion = 1;

/// A larger file is not an entry; it is refused before anything is allocated for it.
inline constexpr std::uint64_t kMaxEntryBytes = std::uint64_t{256} << 20;

/// The file's bytes.
std::string encode_entry(const Entry& entry);

/// The parts of an encoded entry, as views into it. Checked: lengths and checksum.
struct EntryParts {
  std::string_view image;
  std::string_view metadata;
};
Result<EntryParts> split_entry(std::string_view bytes);

/// An entry's file. What it begins with may be shared with the files of other entries.
struct EntryFile {
  EntryFile() = default;
  EntryFile(std::string file) : rest(std::move(file)) {}
  EntryFile(Image shared, std::string others) : head(std::move(shared)), rest(std::move(others)) {}

  std::uint64_t size() const noexcept { return head.size() + rest.size(); }
  /// In one piece, without a copy where it lies so.
  std::string joined() && {
    return head.empty() ? std::move(rest) : std::string(head.bytes()) + rest;
  }

  Image head{};
  std::string rest{};
};

/// Reads an entry back. Every defect is a Failure with a plain reason: a wrong length, checksum,
/// magic or format version, and metadata that is not exactly what encode_entry writes. The digests
/// of both keys are computed from their material. The image is neither copied nor, where its digest
/// is asked for later or was before, hashed twice. A key that is the same as `asked`, which may be
/// null, is shared with it.
Result<Entry> decode_entry(EntryFile file, const SourceKey* asked = nullptr);

}  // namespace kiln::cache
