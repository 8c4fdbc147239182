// The reader of packs: any bytes give a pack or a reason, every entry of a pack gives bytes or a
// reason, and bytes that pass for an entry are one of that address.

#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "cache/inventory.hpp"
#include "cache/pack_reader.hpp"
#include "tests/fuzz/mend.hpp"

namespace kiln::cache::fuzz {
namespace {

// One file that takes each input in turn; in memory where that is to be had.
class InputFile {
 public:
  InputFile() {
    const bool in_memory = access("/dev/shm", W_OK) == 0;
    path_ = (in_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) +
            "/kiln-fuzz-XXXXXX";
    handle_ = mkstemp(path_.data());
    expect(handle_ >= 0, "a temporary file can be made");
  }
  ~InputFile() {
    close(handle_);
    unlink(path_.c_str());
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& bytes) const {
    const auto size = static_cast<ssize_t>(bytes.size());
    expect(ftruncate(handle_, 0) == 0 && pwrite(handle_, bytes.data(), bytes.size(), 0) == size,
           "the input can be written");
  }

 private:
  std::string path_;
  int handle_ = -1;
};

void read_pack(const InputFile& input, const std::string& bytes, const PackTrust* trust) {
  static PosixFileSystem disk;
  input.write(bytes);
  const auto pack = PackReader::open(disk, input.path(), trust);
  if (!pack) {
    expect(!pack.error().reason.empty(), "a refusal has a reason");
    return;
  }
  for (const PackEntry& entry : (*pack)->index().entries) {
    expect((*pack)->find(entry.address) == &entry, "every entry of the index is found");
    auto file = (*pack)->read(entry);
    const auto decoded = file ? decode_entry_at(entry.address, *file) : fail({}, "unread");
    expect(!decoded || encode_entry(*decoded) == std::move(*file).joined(),
           "an accepted entry is its file");
  }
  static_cast<void>((*pack)->verify_whole());
}

std::uint64_t integer_at(const std::string& bytes, std::size_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Makes the checksums of index and whole right.
void mend(std::string& bytes) {
  const std::size_t trailer = bytes.size() - kPackTrailerBytes;
  const std::uint64_t index = integer_at(bytes, trailer);
  if (index <= trailer - kPackHeaderBytes) {
    mend_digest(bytes, trailer - static_cast<std::size_t>(index), trailer, trailer + 8);
  }
  const std::size_t whole = bytes.size() - encode_trailer_end({}).size();
  mend_digest(bytes, 0, whole, whole);
}

}  // namespace
}  // namespace kiln::cache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln::cache;
  static const fuzz::InputFile input;
  // A key that nobody has, so that a pack must fail somewhere.
  static const PackTrust signed_only{TrustPolicy::of_process(), {true, {PublicKey{}}, ""}};
  std::string bytes(reinterpret_cast<const char*>(data), size);
  fuzz::read_pack(input, bytes, nullptr);
  if (size >= kPackHeaderBytes + kPackTrailerBytes) {
    fuzz::mend(bytes);
    fuzz::read_pack(input, bytes, nullptr);
    fuzz::read_pack(input, bytes, &signed_only);
  }
  return 0;
}
