#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cache/entry.hpp"
#include "cache/file_system.hpp"
#include "cache/layer.hpp"
#include "cache/layout.hpp"
#include "cache/trust.hpp"

namespace kiln::cache {

/// One directory of entries. Thread-safe.
class DirectoryLayer final : public Layer {
 public:
  /// Nothing is read until the root passes the rule for this role.
  DirectoryLayer(FileSystem& file_system, const std::string& root, TrustRole role,
                 const TrustPolicy& policy)
      : file_system_(file_system), layout_(root), trust_(file_system, root, role, policy) {}

  const Layout& layout() const noexcept { return layout_; }

  const std::string& name() const noexcept override { return layout_.root(); }
  /// trust(), for a lookup: a root that does not exist yet is absent.
  Layered<void> check() override;
  /// Listed once per target; a disk error is not an answer, so the next call lists again.
  Layered<std::vector<ToolchainFolder>> toolchains(const std::string& target) override;
  std::string place(const EntryAddress& address) const override { return layout_.entry(address); }
  Layered<LayerBytes> read(const EntryAddress& address) override;
  std::vector<ListedEntry> list() override;
  StoreUsage usage() override;

  /// Whether what lies here may be used; asks the disk until the answer is yes.
  Verdict trust() { return trust_(); }
  /// Tells of a folder that this process filled.
  void add_toolchain(const std::string& target, const ToolchainFolder& toolchain);

 private:
  FileSystem& file_system_;
  const Layout layout_;
  TrustCheck trust_;
  std::mutex mutex_;
  std::map<std::string, std::vector<ToolchainFolder>> toolchains_;  // Guarded by mutex_.
};

}  // namespace kiln::cache
