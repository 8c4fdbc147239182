#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "cache/entry.hpp"
#include "cache/store.hpp"

namespace kiln::cache::test {

inline ToolchainKey sample_toolchain(int major = 13, int minor = 0, const std::string& tag = "a") {
  KeyWriter writer("test.toolchain", 1);
  return {major, minor, std::move(writer.text("build", tag)).take()};
}

/// With one bit of it changed.
inline Image forged_image(const Image& image) {
  std::string bytes(image.bytes());
  bytes.at(100) ^= 1;
  return bytes;
}

inline SourceKey sample_source(const std::string& target = "sm_90a", const std::string& tag = "a") {
  KeyWriter writer("test.source", 1);
  return {target, std::move(writer.text("target", target).text("code", tag)).take()};
}

inline Entry sample_entry(SourceKey source = sample_source(),
                          ToolchainKey toolchain = sample_toolchain(),
                          std::size_t image_bytes = 300) {
  Entry entry;
  std::string image =
      "\x7f"
      "ELF";
  while (image.size() < image_bytes) {
    image.push_back(static_cast<char>(image.size() * 131 % 251));
  }
  entry.image = std::move(image);
  entry.symbol = "_Z6kernelv";
  entry.label = "op A=1 " + source.target;
  entry.resources = {40, 1024, 16, 8, 4};
  entry.pdl_wait = true;
  entry.source = std::move(source);
  entry.toolchain = std::move(toolchain);
  return entry;
}

inline bool same(const Entry& a, const Entry& b) {
  return a.source.target == b.source.target && a.source.material == b.source.material &&
         a.source.digest == b.source.digest && a.toolchain.major == b.toolchain.major &&
         a.toolchain.minor == b.toolchain.minor && a.toolchain.material == b.toolchain.material &&
         a.toolchain.digest == b.toolchain.digest && a.symbol == b.symbol && a.label == b.label &&
         a.resources == b.resources && a.pdl_wait == b.pdl_wait && a.image == b.image;
}

/// Collects what a store logs.
class LogLines {
 public:
  Logger logger() { return Logger({&LogLines::add, this, LogLevel::kWarning}); }

  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines()) {
      all += line + "\n";
    }
    return all;
  }

 private:
  static void add(LogLevel, const char* message, void* user) {
    auto* self = static_cast<LogLines*>(user);
    const std::lock_guard lock(self->mutex_);
    self->lines_.emplace_back(message);
  }

  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// A store whose root was named.
inline StoreOptions options_at(const std::string& root, LogLines& log,
                               std::shared_ptr<FileSystem> file_system = nullptr) {
  StoreOptions options;
  options.root.option = root;
  options.logger = log.logger();
  options.file_system = std::move(file_system);
  return options;
}

inline std::optional<Hit> find(Store& store, const SourceKey& source,
                               const ToolchainKey* toolchain = nullptr,
                               std::optional<int> max_major = std::nullopt) {
  return store.lookup({{&source, 1}, toolchain, max_major});
}

inline std::string entry_path(const std::string& root, const Entry& entry) {
  return root + "/v1/" + entry.source.target + "/" + entry.toolchain.folder() + "/" +
         entry.source.digest.hex() + ".cubin";
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
}

/// Paths below `root`, files only, sorted.
inline std::vector<std::string> files_below(const std::string& root) {
  std::vector<std::string> files;
  if (std::filesystem::exists(root)) {
    for (const auto& item : std::filesystem::recursive_directory_iterator(root)) {
      if (!item.is_directory()) {
        files.push_back(item.path().string());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace kiln::cache::test
