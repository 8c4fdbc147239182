#include "cache/pack_layer.hpp"

#include <functional>
#include <utility>

#include "cache/entry.hpp"

namespace kiln::cache {
namespace {

using Kind = LayerFailure::Kind;

// The index is sorted, so that each folder's entries lie together and older toolchains come first.
std::map<std::string, std::vector<ToolchainFolder>> toolchains_of(const PackIndex& index) {
  std::map<std::string, std::vector<ToolchainFolder>> found;
  for (const PackEntry& entry : index.entries) {
    auto& folders = found[entry.address.target];
    if (folders.empty() || folders.front() != entry.address.toolchain) {
      folders.insert(folders.begin(), entry.address.toolchain);
    }
  }
  return found;
}

}  // namespace

Layered<void> PackLayer::check() {
  if (reader() != nullptr) {
    return {};
  }
  const std::lock_guard lock(mutex_);
  if (reader_) {
    return {};
  }
  if (refusal_) {
    return tl::unexpected(*refusal_);
  }
  auto opened = PackReader::open(file_system_, path_, trust_);
  if (!opened) {
    if (opened.error().kind == Kind::kRejected) {
      refusal_ = opened.error();
    }
    return tl::unexpected(std::move(opened.error()));
  }
  reader_ = std::move(*opened);
  toolchains_ = toolchains_of(reader_->index());
  ready_.store(reader_.get(), std::memory_order_release);
  return {};
}

Layered<std::vector<ToolchainFolder>> PackLayer::toolchains(const std::string& target) {
  const auto known = reader() != nullptr ? toolchains_.find(target) : toolchains_.end();
  return known != toolchains_.end() ? known->second : std::vector<ToolchainFolder>();
}

std::string PackLayer::place(const EntryAddress& address) const {
  return path_ + ":" + address.target + "/" + address.toolchain.name() + "/" +
         Layout::entry_name(address.source);
}

Layered<LayerBytes> PackLayer::read(const EntryAddress& address) {
  const PackReader* pack = reader();
  const PackEntry* entry = pack != nullptr ? pack->find(address) : nullptr;
  if (entry == nullptr) {
    return tl::unexpected(LayerFailure{Kind::kAbsent, path_, "it has no such entry"});
  }
  auto bytes = pack->read(*entry);
  if (!bytes) {
    return tl::unexpected(std::move(bytes.error()));
  }
  return LayerBytes{std::move(*bytes), pack->file()};
}

std::vector<ListedEntry> PackLayer::list() {
  std::vector<ListedEntry> listed;
  if (const PackReader* pack = reader()) {
    for (const PackEntry& entry : pack->index().entries) {
      auto bytes = read(entry.address);
      ListedEntry one = describe_entry(
          entry.address, bytes
                             ? Result<EntryFile>(std::move(bytes->bytes))
                             : fail(ErrorCode::kIo, "it cannot be read: " + bytes.error().reason));
      one.path = place(entry.address);
      one.layer = path_;
      listed.push_back(std::move(one));
    }
  }
  return listed;
}

StoreUsage PackLayer::usage() {
  const PackReader* pack = reader();
  return pack != nullptr ? StoreUsage{pack->index().entries.size(), pack->file_bytes(), 0}
                         : StoreUsage();
}

}  // namespace kiln::cache
