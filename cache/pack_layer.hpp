#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/layer.hpp"
#include "cache/pack_reader.hpp"

namespace kiln::cache {

/// One pack file of entries, opened when it is first asked and kept open, so that a pack that is
/// replaced by a rename serves its old content to its old users. Thread-safe.
class PackLayer final : public Layer {
 public:
  /// `path` is canonical. Touches nothing yet. `trust` must outlive the layer; null as for
  /// PackReader::open.
  PackLayer(FileSystem& file_system, std::string path, const PackTrust* trust)
      : file_system_(file_system), path_(std::move(path)), trust_(trust) {}

  const std::string& name() const noexcept override { return path_; }
  /// Opens the pack. What is wrong with its content is said for good; a disk error is not.
  Layered<void> check() override;
  Layered<std::vector<ToolchainFolder>> toolchains(const std::string& target) override;
  /// "<pack>:<target>/<toolchain>/<digest>.cubin".
  std::string place(const EntryAddress& address) const override;
  Layered<LayerBytes> read(const EntryAddress& address) override;
  std::vector<ListedEntry> list() override;
  /// The bytes are the file's.
  StoreUsage usage() override;

  /// Null until check() has said yes.
  const PackReader* reader() const noexcept { return ready_.load(std::memory_order_acquire); }

 private:
  FileSystem& file_system_;
  const std::string path_;
  const PackTrust* const trust_;
  std::atomic<const PackReader*> ready_ = nullptr;  // reader_, once it and toolchains_ are set.
  std::mutex mutex_;
  std::unique_ptr<PackReader> reader_;   // Guarded by mutex_ until ready_.
  std::optional<LayerFailure> refusal_;  // Guarded by mutex_.
  std::map<std::string, std::vector<ToolchainFolder>> toolchains_;  // As reader_; newest first.
};

}  // namespace kiln::cache
