#include "cache/layer_stack.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace kiln::cache {
namespace {

using Kind = LayerFailure::Kind;

// Reads an entry and compares it with what was asked for: the material, not just its digest.
Result<Entry> decode_for(EntryFile bytes, const SourceKey& source, const ToolchainFolder& folder,
                         const ToolchainKey* toolchain) {
  auto entry = decode_entry(std::move(bytes), &source);
  if (!entry) {
    return entry;
  }
  if (entry->source.target != source.target || entry->source.material != source.material) {
    return fail(ErrorCode::kIo, "it holds another kernel than its name says");
  }
  const bool expected_material = toolchain == nullptr || toolchain->digest != folder.digest ||
                                 toolchain->material == entry->toolchain.material;
  if (entry->toolchain.folder_key() != folder || !expected_material) {
    return fail(ErrorCode::kIo, "it was made by another toolchain than its folder says");
  }
  return entry;
}

}  // namespace

DirectoryLayer& LayerStack::add_writable(std::unique_ptr<DirectoryLayer> layer) {
  DirectoryLayer& added = *layer;
  writable_ = &added;
  add(std::move(layer));
  return added;
}

std::optional<Hit> LayerStack::find(const Query& query) {
  for (const SourceKey& source : query.sources) {
    if (!Layout::is_target_name(source.target)) {
      continue;
    }
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      if (auto hit = find_in(layer, source, query)) {
        return hit;
      }
    }
  }
  return std::nullopt;
}

std::vector<ToolchainFolder> LayerStack::candidates(Layer& layer, const std::string& target,
                                                    const Query& query) {
  const bool exact = &layer == writable_ || match_ == Match::kExact;
  if (query.toolchain != nullptr && exact) {
    return {query.toolchain->folder_key()};
  }
  auto listed = layer.toolchains(target);
  if (!listed) {
    report(listed.error());
    return {};
  }
  std::vector<ToolchainFolder> folders = std::move(*listed);
  const auto is_own = [&](const ToolchainFolder& folder) {
    return query.toolchain != nullptr && folder == query.toolchain->folder_key();
  };
  std::erase_if(folders, [&](const ToolchainFolder& folder) {
    return query.max_toolchain_major && folder.major > *query.max_toolchain_major &&
           !is_own(folder);
  });
  std::stable_partition(folders.begin(), folders.end(), is_own);
  return folders;
}

std::optional<Hit> LayerStack::find_in(std::size_t layer, const SourceKey& source,
                                       const Query& query) {
  if (const auto usable = layers_[layer]->check(); !usable) {
    report(usable.error());
    return std::nullopt;
  }
  for (const ToolchainFolder& folder : candidates(*layers_[layer], source.target, query)) {
    if (auto hit = open(layer, {source.target, folder, source.digest}, source, query)) {
      return hit;
    }
  }
  return std::nullopt;
}

std::optional<Hit> LayerStack::open(std::size_t layer, const EntryAddress& address,
                                    const SourceKey& source, const Query& query) {
  std::string place = layers_[layer]->place(address);
  if (rejects_.contains(place)) {
    return std::nullopt;
  }
  auto read = layers_[layer]->read(address);
  if (!read) {
    if (read.error().kind == Kind::kRejected) {
      rejects_.add(place, home(layer), std::nullopt, read.error().reason);
    } else {
      report(read.error());
    }
    return std::nullopt;
  }
  const std::uint64_t bytes = read->bytes.size();
  auto entry = decode_for(std::move(read->bytes), source, address.toolchain, query.toolchain);
  if (!entry) {
    rejects_.add(place, home(layer), read->file, entry.error().message);
    return std::nullopt;
  }
  return Hit{std::move(*entry), std::move(place), read->file, layer, bytes, read->modified};
}

void LayerStack::reject(const Hit& hit, std::string_view reason) {
  rejects_.add(hit.path, home(hit.layer), hit.file, reason);
}

const Layout* LayerStack::home(std::size_t layer) const {
  return is_writable(layer) ? &writable_->layout() : nullptr;
}

void LayerStack::report(const LayerFailure& failure) {
  if (failure.kind == Kind::kUnreadable) {
    logger_.warn_once("cache.disk",
                      fmt::format("cache: {} cannot be read: {}. Kernels that cannot be read are "
                                  "compiled, and those that cannot be written stay in memory; this "
                                  "is said once.",
                                  failure.place, failure.reason));
  } else if (failure.kind == Kind::kRejected) {
    logger_.warn_once("cache.layer:" + failure.place,
                      fmt::format("cache: {} is not used: {}.", failure.place, failure.reason));
  }
}

}  // namespace kiln::cache
