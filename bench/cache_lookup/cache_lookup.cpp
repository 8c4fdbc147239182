// What a warm lookup costs: the store's, beside a bare open + mmap + XXH3 of the same file.
//
//   cache_lookup [DIR]        DIR is used and removed; default: a fresh directory in TMPDIR or /tmp
//
// Both are timed alternately in one run, on a cache of one entry and then of 10,000, and the ratio
// is printed. The files are in the page cache: what a disk would add is the same for both.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
  made.image.resize(kImageBytes);
  for (std::size_t i = 0; i < kImageBytes; ++i) {
    made.image[i] = static_cast<char>(i * 131 % 251);
  }
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

void measure(Store& store, int entries) {
  const SourceKey wanted = source(0);
  const ToolchainKey compiler = toolchain();
  const Query query{{&wanted, 1}, &compiler, {}};
  const auto first = store.lookup(query);
  if (!first) {
    fmt::print(stderr, "the entry just published is a miss; {}\n", store.root_description());
    std::exit(1);
  }
  std::vector<double> lookups;
  std::vector<double> bare;
  std::uint64_t sink = 0;
  for (int i = 0; i < kRepeats; ++i) {
    lookups.push_back(microseconds([&] { sink += store.lookup(query)->entry.image.size(); }));
    bare.push_back(microseconds([&] { sink += bare_read(first->path); }));
  }
  fmt::print(
      "{:>6} entries: lookup {:6.2f} us, bare open + mmap + XXH3 {:6.2f} us, ratio {:.2f}{}\n",
      entries, median(lookups), median(bare), median(lookups) / median(bare), sink == 0 ? "!" : "");
}

int run(const std::string& directory) {
  StoreOptions options;
  options.root.option = directory;
  Store store(std::move(options));
  if (const auto stored = store.publish(entry(0)); !stored) {
    fmt::print(stderr, "{}\n", stored.error().message);
    return 1;
  }
  measure(store, 1);
  // Copied rather than published, so that no disk is synced ten thousand times.
  const std::string first = store.list().front().path;
  const auto folder = std::filesystem::path(first).parent_path();
  for (int i = 1; i < kManyEntries; ++i) {
    std::filesystem::copy_file(first, folder / (source(i).digest.hex() + ".cubin"));
  }
  measure(store, kManyEntries);
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
