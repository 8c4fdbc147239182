// Writes the fuzzers' corpus: DIR/entry, DIR/pack and DIR/message, from the samples of the tests.

#include <filesystem>
#include <string>
#include <vector>

#include "cache/entry.hpp"
#include "cache/pack_writer.hpp"
#include "tests/cache/samples.hpp"
#include "tests/runtime/worker/samples.hpp"

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

void write_messages(const std::string& directory) {
  using namespace kiln::test;
  using namespace kiln::runtime;
  write_bytes(directory + "/hello", encode_hello(sample_hello()));
  write_bytes(directory + "/hello_reply", encode_hello_reply(sample_hello_reply()));
  write_bytes(directory + "/hello_refused", encode_hello_reply({sample_failure()}));
  write_bytes(directory + "/compile", encode_compile(sample_units()).value());
  write_bytes(directory + "/compile_reply", encode_compile_reply(sample_compile_reply()));
  write_bytes(directory + "/compile_failed", encode_compile_reply({sample_failure()}));
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
  write_messages(directory + "/message");
  return 0;
}
