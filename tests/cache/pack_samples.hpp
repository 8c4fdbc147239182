#pragma once

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cache/pack_reader.hpp"
#include "cache/pack_writer.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache::test {

inline EntryAddress address_of(const Entry& entry) {
  return {entry.source.target, entry.toolchain.folder_key(), entry.source.digest};
}

/// A source whose material holds a long text, as that of a kernel holds its template.
inline SourceKey source_with_text(const std::string& tag, const std::string& text) {
  KeyWriter writer("test.source", 1);
  writer.text("code", tag).text("template", text);
  return {"sm_90a", std::move(writer).take()};
}

/// Entries over two targets and two toolchains, two of them with the same image.
inline std::vector<Entry> sample_entries() {
  std::vector<Entry> entries = {
      sample_entry(sample_source("sm_90a", "a")), sample_entry(sample_source("sm_90a", "b")),
      sample_entry(sample_source("sm_90a", "c"), sample_toolchain(13, 1, "b"), 400),
      sample_entry(sample_source("sm_100a", "a"), sample_toolchain(), 500)};
  return entries;
}

/// Packs the entries, added in this order.
inline std::string pack_of(const std::vector<Entry>& entries, const SigningKey* key = nullptr) {
  std::vector<EntryAddress> addresses;
  for (const Entry& entry : entries) {
    addresses.push_back(address_of(entry));
  }
  const auto read = [&](const EntryAddress& address) -> Result<std::string> {
    for (const Entry& entry : entries) {
      const EntryAddress own = address_of(entry);
      if (!pack_order(own, address) && !pack_order(address, own)) {
        return encode_entry(entry);
      }
    }
    return fail(ErrorCode::kIo, "no such entry");
  };
  auto pack = build_pack(std::move(addresses), read, key);
  REQUIRE(pack);
  return std::move(pack->bytes);
}

/// Anything of this process's user, unsigned.
inline PackTrust trusting() {
  return {TrustPolicy::of_process(), {}};
}

inline PackTrust trusting(const PublicKey& key) {
  return {TrustPolicy::of_process(), {true, {key}, ""}};
}

/// A directory with one pack file in it.
struct PackFile {
  explicit PackFile(const std::string& bytes) { write(bytes); }
  void write(const std::string& bytes) const { write_bytes(path(), bytes); }
  std::string path() const { return dir.str("k.pack"); }
  Layered<std::unique_ptr<PackReader>> open(const PackTrust& trust = trusting()) {
    return PackReader::open(disk, path(), &trust);
  }

  kiln::test::TempDir dir;
  PosixFileSystem disk;
};

/// One byte of a file, changed in place for as long as this lives.
class ChangedByte {
 public:
  ChangedByte(const std::string& path, std::size_t offset, char byte, int change)
      : file_(path, std::ios::binary | std::ios::in | std::ios::out), offset_(offset), byte_(byte) {
    put(static_cast<char>(byte ^ change));
  }
  ~ChangedByte() { put(byte_); }
  ChangedByte(const ChangedByte&) = delete;
  ChangedByte& operator=(const ChangedByte&) = delete;

 private:
  void put(char byte) {
    file_.seekp(static_cast<std::streamoff>(offset_));
    file_.put(byte).flush();
  }

  std::fstream file_;
  std::size_t offset_;
  char byte_;
};

/// How many of the entries a reader gives whole. A wrong one fails the test.
inline std::size_t whole_entries(const PackReader& reader, const std::vector<Entry>& entries) {
  std::size_t whole = 0;
  for (const Entry& entry : entries) {
    const PackEntry* found = reader.find(address_of(entry));
    const auto file = found != nullptr ? reader.read(*found) : Layered<EntryFile>("");
    const auto decoded = file ? decode_entry(*file) : Result<Entry>(Entry());
    if (file && decoded) {
      REQUIRE(same(*decoded, entry));
      ++whole;
    }
  }
  return whole;
}

}  // namespace kiln::cache::test
