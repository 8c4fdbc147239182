// Writes the fuzzers' corpus: DIR/entry and DIR/pack, from the samples of the tests.

#include <filesystem>
#include <string>
#include <vector>

#include "cache/entry.hpp"
#include "cache/pack_writer.hpp"
#include "tests/cache/samples.hpp"

namespace {

using namespace kiln::cache;
using namespace kiln::cache::test;

std::string pack_of(const std::vector<Entry>& entries) {
  std::vector<EntryAddress> addresses;
  for (const Entry& entry : entries) {
    addresses.push_back({entry.source.target, entry.toolchain.folder_key(), entry.source.digest});
  }
  const auto read = [&](const EntryAddress& address) -> kiln::Result<std::string> {
    for (const Entry& entry : entries) {
      if (entry.source.digest == address.source && entry.source.target == address.target) {
        return encode_entry(entry);
      }
    }
    return kiln::fail(kiln::ErrorCode::kInternal, "no such entry");
  };
  return value_or_throw(build_pack(addresses, read)).bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    return 2;
  }
  const std::string directory = argv[1];
  const Entry small = sample_entry(sample_source(), sample_toolchain(), 40);
  const Entry other = sample_entry(sample_source("sm_100a", "b"), sample_toolchain(13, 1, "b"), 60);
  Entry nested =
      sample_entry(sample_source("sm_90a", std::string(600, 't')), sample_toolchain(), 8);
  Entry large = sample_entry(sample_source("sm_90", "c"));
  large.image = std::string(40 << 10, 'x');
  write_bytes(directory + "/entry/small", encode_entry(small));
  write_bytes(directory + "/entry/other", encode_entry(other));
  write_bytes(directory + "/entry/long_value", encode_entry(nested));
  write_bytes(directory + "/pack/empty", pack_of({}));
  write_bytes(directory + "/pack/one", pack_of({small}));
  write_bytes(directory + "/pack/three", pack_of({small, other, nested}));
  write_bytes(directory + "/pack/compressed", pack_of({large, small}));
  return 0;
}
