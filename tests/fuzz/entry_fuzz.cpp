// The reader of entries: any bytes give an entry or a reason, and an entry that is accepted is,
// byte for byte, what writing it gives.

#include "cache/entry.hpp"
#include "cache/pack_pieces.hpp"
#include "tests/fuzz/mend.hpp"

namespace kiln::cache::fuzz {
namespace {

void read_entry(const std::string& bytes) {
  const auto pieces = cut_entry(bytes);
  if (pieces) {
    std::string joined;
    for (const std::string_view piece : *pieces) {
      joined += piece;
    }
    expect(joined == bytes, "the pieces of an entry are its file");
  }
  const auto entry = decode_entry(bytes);
  if (entry) {
    expect(encode_entry(*entry) == bytes, "an accepted entry is what writing it gives");
  } else {
    expect(!entry.error().message.empty(), "a refusal has a reason");
  }
}

}  // namespace
}  // namespace kiln::cache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln::cache;
  constexpr std::size_t kChecksumBytes = 16;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  fuzz::read_entry(bytes);
  if (size >= kChecksumBytes) {
    fuzz::mend_digest(bytes, 0, size - kChecksumBytes, size - kChecksumBytes);
    fuzz::read_entry(bytes);
  }
  return 0;
}
