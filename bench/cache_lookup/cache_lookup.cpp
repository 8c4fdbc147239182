// What a warm lookup costs: in a directory and in a pack, beside a bare open + mmap + XXH3 of the
// same entry's file.
//
//   cache_lookup [DIR]        DIR is used and removed; default: a fresh directory in TMPDIR or /tmp
//
// The three are timed alternately in one run, with one entry and then with 10,000, and the ratios
// are printed. The files are in the page cache: what a disk would add is the same for all.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/entry.hpp"
#include "cache/layout.hpp"
#include "cache/pack_create.hpp"
#include "cache/store.hpp"

namespace {

using namespace kiln::cache;

constexpr std::size_t kImageBytes = 10 * 1024;
constexpr int kRepeats = 5000;
constexpr int kManyEntries = 10000;

ToolchainKey toolchain() {
  return {13, 0, "bench toolchain"};
}

SourceKey source(int index) {
  return {"sm_90a", "bench source " + std::to_string(index)};
}

Entry entry(int index) {
  Entry made;
  made.source = source(index);
  made.toolchain = toolchain();
  made.symbol = "kernel";
  std::string image(kImageBytes, '\0');
  for (std::size_t i = 0; i < kImageBytes; ++i) {
    image[i] = static_cast<char>(i * 131 % 251);
  }
  std::memcpy(image.data(), &index, sizeof index);  // A pack would store equal images once.
  made.image = std::move(image);
  return made;
}

// The least that any cache of checked files must do.
std::uint64_t bare_read(const std::string& path) {
  const int handle = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (handle < 0 || fstat(handle, &status) != 0) {
    std::abort();
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, handle, 0);
  if (mapped == MAP_FAILED) {
    std::abort();
  }
  const auto low = digest({static_cast<const char*>(mapped), size}).low;
  munmap(mapped, size);
  close(handle);
  return low;
}

template <class Function>
double microseconds(Function&& function) {
  const auto begin = std::chrono::steady_clock::now();
  function();
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  return spent.count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::size_t image_bytes(Store& store, const Query& query) {
  const auto hit = store.lookup(query);
  if (!hit) {
    fmt::print(stderr, "an entry that was stored is a miss; {}\n", store.root_description());
    std::exit(1);
  }
  return hit->entry.image.size();
}

// Every round asks for another entry, once without the clock so that all three find it warm.
void measure(Store& files, Store& pack, const std::string& folder, int entries) {
  const ToolchainKey compiler = toolchain();
  std::vector<double> in_files;
  std::vector<double> in_pack;
  std::vector<double> bare;
  std::uint64_t sink = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const SourceKey wanted = source(i % entries);
    const Query query{{&wanted, 1}, &compiler, {}};
    const std::string path = folder + "/" + wanted.digest.hex() + ".cubin";
    sink += bare_read(path) + image_bytes(files, query) + image_bytes(pack, query);
    in_files.push_back(microseconds([&] { sink += image_bytes(files, query); }));
    in_pack.push_back(microseconds([&] { sink += image_bytes(pack, query); }));
    bare.push_back(microseconds([&] { sink += bare_read(path); }));
  }
  const double base = median(bare);
  fmt::print(
      "{:>6} entries: file {:5.2f} us, pack {:5.2f} us, bare open + mmap + XXH3 {:5.2f} us; "
      "file / bare {:.2f}, pack / bare {:.2f}{}\n",
      entries, median(in_files), median(in_pack), base, median(in_files) / base,
      median(in_pack) / base, sink == 0 ? "!" : "");
}

Store store_of(const std::string& root, const std::vector<std::string>& layers) {
  StoreOptions options;
  options.root.option = root;
  options.read_only_layers = layers;
  return Store(std::move(options));
}

// Writes entries `begin` to `end` and packs all there are. Files are written as they are, rather
// than published, so that no disk is synced ten thousand times.
bool fill(FileSystem& disk, const std::string& root, const std::string& pack, int begin, int end) {
  const Layout layout(root);
  std::filesystem::create_directories(layout.toolchain("sm_90a", toolchain().folder_key()));
  for (int i = begin; i < end; ++i) {
    const Entry made = entry(i);
    std::ofstream file(layout.entry({"sm_90a", toolchain().folder_key(), made.source.digest}),
                       std::ios::binary);
    file << encode_entry(made);
  }
  const auto created = create_pack(disk, root, pack);
  if (!created) {
    fmt::print(stderr, "{}\n", created.error().message);
  }
  return created.has_value();
}

int run(const std::string& given) {
  PosixFileSystem disk;
  const std::string directory = disk.canonical(given).value_or(given);
  const std::string root = directory + "/root";
  const std::string pack = directory + "/k.pack";
  const std::string folder = Layout(root).toolchain("sm_90a", toolchain().folder_key());
  int filled = 0;
  for (const int entries : {1, kManyEntries}) {
    if (!fill(disk, root, pack, filled, entries)) {
      return 1;
    }
    filled = entries;
    Store files = store_of(root, {});
    Store packed = store_of(directory + "/empty", {pack});
    measure(files, packed, folder, entries);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string directory = argc > 1 ? argv[1] : "";
  if (directory.empty()) {
    directory = (std::filesystem::temp_directory_path() / "kiln-bench-XXXXXX").string();
    if (mkdtemp(directory.data()) == nullptr) {
      fmt::print(stderr, "no temporary directory could be made: {}\n", directory);
      return 1;
    }
  }
  const int code = run(directory);
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return code;
}
